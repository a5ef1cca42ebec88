// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The volume's flat names as folders and files: `a/b` is the file `b` in the folder `a`.

use files::naming::misfit;
use files::now_ns;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// The number of a node, which no other node ever gets; the root is 0.
pub type Number = u64;

/// The times of a node, in nanoseconds since 1970. A volume keeps only when a file was modified:
/// the rest is kept for as long as it is mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Its data, or the names in a folder.
    pub modified_ns: u64,
    /// Anything of it.
    pub changed_ns: u64,
    /// What it was set to: reads do not change it.
    pub accessed_ns: u64,
}

impl Times {
    /// All the same.
    pub fn all(ns: u64) -> Self {
        Self {
            modified_ns: ns,
            changed_ns: ns,
            accessed_ns: ns,
        }
    }

    /// Its data was modified at this time.
    pub fn modify(&mut self, ns: u64) {
        (self.modified_ns, self.changed_ns) = (ns, now_ns());
    }
}

/// What a file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Its name in the volume.
    pub name: String,
    /// Bytes of data.
    pub size_bytes: u64,
    /// Bytes that it occupies.
    pub allocated_bytes: u64,
    /// Its times.
    pub times: Times,
    /// It has no name any more and is open.
    pub is_removed: bool,
}

/// A folder.
#[derive(Clone, Debug, Default)]
pub struct Inside {
    /// The folder that it is in.
    pub parent: Number,
    /// Its times.
    pub times: Times,
    /// Its name in the volume, without a slash at the end; the root's is empty.
    name: String,
    by_name: BTreeMap<String, Number>,
    /// The same in the order of the numbers: a place in a listing stays right when others are
    /// removed.
    by_number: BTreeMap<Number, String>,
}

impl Inside {
    /// What is in it, from a number on.
    pub fn from(&self, number: Number) -> impl Iterator<Item = (Number, &str)> {
        let rest = self.by_number.range(number..);
        rest.map(|(number, name)| (*number, name.as_str()))
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    fn add(&mut self, name: &str, number: Number) {
        self.by_name.insert(name.to_owned(), number);
        self.by_number.insert(number, name.to_owned());
        self.times.modify(now_ns());
    }
}

/// A node.
#[derive(Clone, Debug)]
pub enum Node {
    /// A folder.
    Folder(Inside),
    /// A file.
    File(FileFacts),
}

/// The folders and files.
#[derive(Debug)]
pub struct Tree {
    nodes: HashMap<Number, Node>,
    next: Number,
    file_count: u64,
}

/// A tree that several threads see.
#[derive(Debug)]
pub struct SharedTree(Mutex<Tree>);

impl SharedTree {
    /// Shares a tree.
    pub fn new(tree: Tree) -> Self {
        Self(Mutex::new(tree))
    }

    /// Calls `body` with the tree.
    pub fn with<T>(&self, body: impl FnOnce(&mut Tree) -> T) -> T {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tree {
    /// The tree of these files, and the names that it cannot show: `.`, `..` or nothing between two
    /// slashes, and a file whose name is also that of a folder.
    pub fn new(files: impl IntoIterator<Item = FileFacts>) -> (Self, Vec<String>) {
        let root = Inside {
            times: Times::all(now_ns()),
            ..Inside::default()
        };
        let mut tree = Self {
            nodes: HashMap::from([(0, Node::Folder(root))]),
            next: 1,
            file_count: 0,
        };
        let mut hidden = Vec::new();
        let (mut shown, mut files): (Vec<FileFacts>, Vec<FileFacts>) =
            (Vec::new(), files.into_iter().collect());
        // The deepest first: a folder has more in it than the file of its name.
        files.sort_by_key(|file| std::cmp::Reverse(file.name.matches('/').count()));
        for file in files {
            match misfit(&file.name) {
                None => shown.push(file),
                Some(_) => hidden.push(file.name),
            }
        }
        for file in shown {
            let name = file.name.clone();
            if tree.place(file).is_none() {
                hidden.push(name);
            }
        }
        hidden.sort();
        (tree, hidden)
    }

    /// Adds a file and the folders of its name, unless its place is taken.
    fn place(&mut self, file: FileFacts) -> Option<Number> {
        let name = file.name.clone();
        let (folders, last) = name.rsplit_once('/').unwrap_or(("", &name));
        let mut folder = 0;
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            folder = match self.find(folder, part) {
                Some(known) => known,
                None => self.add_folder(folder, part)?,
            };
        }
        self.add_file(folder, last, file)
    }

    /// A folder, to change it.
    fn folder_mut(&mut self, number: Number) -> Option<&mut Inside> {
        match self.nodes.get_mut(&number) {
            Some(Node::Folder(inside)) => Some(inside),
            _ => None,
        }
    }

    fn add(&mut self, folder: Number, name: &str, node: Node) -> Option<Number> {
        let number = self.next;
        let inside = self.folder_mut(folder)?;
        if inside.by_name.contains_key(name) {
            return None;
        }
        inside.add(name, number);
        self.file_count += u64::from(matches!(node, Node::File(_)));
        self.nodes.insert(number, node);
        self.next += 1;
        Some(number)
    }

    /// Adds a file to a folder, unless the name is taken.
    pub fn add_file(&mut self, folder: Number, name: &str, facts: FileFacts) -> Option<Number> {
        self.add(folder, name, Node::File(facts))
    }

    /// Adds a folder to a folder, unless the name is taken.
    pub fn add_folder(&mut self, folder: Number, name: &str) -> Option<Number> {
        let inside = Inside {
            parent: folder,
            times: Times::all(now_ns()),
            name: self.name_in(folder, name)?,
            ..Inside::default()
        };
        self.add(folder, name, Node::Folder(inside))
    }

    /// The name in the volume of what has this name in a folder.
    pub fn name_in(&self, folder: Number, name: &str) -> Option<String> {
        match self.folder(folder)?.name.as_str() {
            "" => Some(name.to_owned()),
            path => Some(format!("{path}/{name}")),
        }
    }

    /// Takes the name from what has it in a folder. The node stays until [`Tree::forget`].
    pub fn detach(&mut self, folder: Number, name: &str) -> Option<Number> {
        let inside = self.folder_mut(folder)?;
        let number = inside.by_name.remove(name)?;
        inside.by_number.remove(&number);
        inside.times.modify(now_ns());
        Some(number)
    }

    /// Gives a node without a name one in a folder.
    pub fn attach(&mut self, folder: Number, name: &str, number: Number) {
        let whole = self.name_in(folder, name);
        let Some(inside) = self.folder_mut(folder) else {
            return;
        };
        inside.add(name, number);
        if let Some(times) = self.times_mut(number) {
            times.changed_ns = now_ns();
        }
        match (self.nodes.get_mut(&number), whole) {
            (Some(Node::File(facts)), Some(whole)) => facts.name = whole,
            (Some(Node::Folder(moved)), Some(whole)) => {
                moved.parent = folder;
                moved.name = whole;
            }
            _ => {}
        }
    }

    /// Drops a node.
    pub fn forget(&mut self, number: Number) {
        if let Some(Node::File(_)) = self.nodes.remove(&number) {
            self.file_count -= 1;
        }
    }

    /// A node.
    pub fn node(&self, number: Number) -> Option<&Node> {
        self.nodes.get(&number)
    }

    /// A file.
    pub fn file(&self, number: Number) -> Option<&FileFacts> {
        match self.node(number) {
            Some(Node::File(facts)) => Some(facts),
            _ => None,
        }
    }

    /// A file, to change it.
    pub fn file_mut(&mut self, number: Number) -> Option<&mut FileFacts> {
        match self.nodes.get_mut(&number) {
            Some(Node::File(facts)) => Some(facts),
            _ => None,
        }
    }

    /// The times of a node, to change them.
    pub fn times_mut(&mut self, number: Number) -> Option<&mut Times> {
        match self.nodes.get_mut(&number)? {
            Node::Folder(inside) => Some(&mut inside.times),
            Node::File(facts) => Some(&mut facts.times),
        }
    }

    /// A folder.
    pub fn folder(&self, number: Number) -> Option<&Inside> {
        match self.node(number) {
            Some(Node::Folder(inside)) => Some(inside),
            _ => None,
        }
    }

    /// What has this name in a folder.
    pub fn find(&self, folder: Number, name: &str) -> Option<Number> {
        self.folder(folder)?.by_name.get(name).copied()
    }

    /// Number of files, those included that have lost their name and are still open.
    pub fn file_count(&self) -> u64 {
        self.file_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(name: &str) -> FileFacts {
        FileFacts {
            name: name.to_owned(),
            size_bytes: 7,
            allocated_bytes: 4096,
            times: Times::all(1),
            is_removed: false,
        }
    }

    fn tree(names: &[&str]) -> (Tree, Vec<String>) {
        Tree::new(names.iter().map(|name| facts(name)))
    }

    fn names(tree: &Tree, folder: Number) -> Vec<&str> {
        tree.folder(folder)
            .unwrap()
            .from(0)
            .map(|(_, name)| name)
            .collect()
    }

    #[test]
    fn slashes_make_folders() {
        let (tree, hidden) = tree(&["b", "a/x/1", "a/y", "a/x/2"]);
        assert_eq!(hidden, [""; 0]);
        assert_eq!(tree.file_count(), 4);
        let a = tree.find(0, "a").unwrap();
        let x = tree.find(a, "x").unwrap();
        assert_eq!(tree.folder(x).unwrap().parent, a);
        assert_eq!(names(&tree, x), ["1", "2"]);
        let one = tree.find(x, "1").unwrap();
        assert_eq!(tree.file(one).unwrap().name, "a/x/1");
        assert_eq!(tree.find(0, "x"), None);
        assert_eq!(tree.find(one, "1"), None);
        assert!(tree.file(x).is_none());
    }

    #[test]
    fn what_cannot_be_shown_is_named() {
        let (tree, hidden) = tree(&[
            "a", "a/b", "/c", "d/", "e//f", "./g", "h/../i", "..", "j/..k", "a/b/c",
        ]);
        assert_eq!(
            hidden,
            ["..", "./g", "/c", "a", "a/b", "d/", "e//f", "h/../i"]
        );
        assert_eq!(tree.file_count(), 2);
        let a = tree.find(0, "a").unwrap();
        let b = tree.find(a, "b").unwrap();
        assert!(tree.find(b, "c").is_some());
    }

    #[test]
    fn nodes_come_go_and_move() {
        let (mut tree, _) = tree(&["a/b", "c"]);
        let a = tree.find(0, "a").unwrap();
        assert_eq!(tree.add_file(a, "b", facts("a/b")), None, "it is taken");
        assert_eq!(tree.add_folder(tree.find(a, "b").unwrap(), "x"), None);
        let d = tree.add_folder(a, "d").unwrap();
        let c = tree.detach(0, "c").unwrap();
        assert_eq!((tree.find(0, "c"), tree.file_count()), (None, 2));
        tree.attach(d, "e", c);
        assert_eq!(tree.file(c).unwrap().name, "a/d/e");
        assert_eq!(tree.name_in(d, "f").unwrap(), "a/d/f");
        // A folder without files takes its name along.
        assert_eq!(tree.detach(d, "e"), Some(c));
        tree.forget(c);
        assert_eq!(tree.file_count(), 1);
        assert_eq!(tree.detach(a, "d"), Some(d));
        tree.attach(0, "g", d);
        assert_eq!(tree.name_in(d, "f").unwrap(), "g/f");
        assert!(tree.folder(d).unwrap().is_empty());
        tree.detach(0, "g");
        tree.forget(d);
        assert!(tree.folder(d).is_none());
    }

    #[test]
    fn a_listing_goes_on_where_it_was_when_others_are_removed() {
        let (mut tree, _) = tree(&["1", "2", "3", "4"]);
        let (second, _) = tree.folder(0).unwrap().from(0).nth(1).unwrap();
        for name in ["1", "2"] {
            let number = tree.detach(0, name).unwrap();
            tree.forget(number);
        }
        let rest: Vec<_> = tree.folder(0).unwrap().from(second + 1).collect();
        assert_eq!(
            rest.iter().map(|(_, name)| *name).collect::<Vec<_>>(),
            ["3", "4"]
        );
    }
}
