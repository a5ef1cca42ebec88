//! The volume's flat names as folders and files: `a/b` is the file `b` in the folder `a`.

use std::collections::BTreeMap;

/// The number of a node; the root is 0.
pub type Number = usize;

/// What a file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Its name in the volume.
    pub name: String,
    /// Bytes of data.
    pub size_bytes: u64,
    /// Bytes that it occupies.
    pub allocated_bytes: u64,
    /// The time of its last commit, in nanoseconds since 1970.
    pub mtime_ns: u64,
}

/// A node.
#[derive(Clone, Debug)]
pub enum Node {
    /// A folder: its parent, and what is in it, by name.
    Folder(Number, BTreeMap<String, Number>),
    /// A file.
    File(FileFacts),
}

/// The folders and files.
#[derive(Debug)]
pub struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// The tree of these files, and the names that it cannot show: `.`, `..` or nothing between two slashes, and a file whose
    /// name is also that of a folder.
    pub fn new(files: impl IntoIterator<Item = FileFacts>) -> (Self, Vec<String>) {
        let mut tree = Self {
            nodes: vec![Node::Folder(0, BTreeMap::new())],
        };
        let mut hidden = Vec::new();
        let (mut shown, mut files): (Vec<FileFacts>, Vec<FileFacts>) =
            (Vec::new(), files.into_iter().collect());
        // The deepest first: a folder has more in it than the file of its name.
        files.sort_by_key(|file| std::cmp::Reverse(file.name.matches('/').count()));
        for file in files {
            let is_good = file
                .name
                .split('/')
                .all(|part| !matches!(part, "" | "." | ".."));
            match is_good {
                true => shown.push(file),
                false => hidden.push(file.name),
            }
        }
        for file in shown {
            let name = file.name.clone();
            if !tree.add(file) {
                hidden.push(name);
            }
        }
        hidden.sort();
        (tree, hidden)
    }

    /// Adds a file, unless its place is taken.
    fn add(&mut self, file: FileFacts) -> bool {
        let name = file.name.clone();
        let mut parts = name.split('/').peekable();
        let mut folder = 0;
        while let Some(part) = parts.next() {
            let next = self.nodes.len();
            let Some(Node::Folder(_, inside)) = self.nodes.get_mut(folder) else {
                return false;
            };
            if parts.peek().is_none() {
                if inside.contains_key(part) {
                    return false;
                }
                inside.insert(part.to_owned(), next);
                self.nodes.push(Node::File(file));
                return true;
            }
            let known = *inside.entry(part.to_owned()).or_insert(next);
            if known == next {
                self.nodes.push(Node::Folder(folder, BTreeMap::new()));
            }
            folder = known;
        }
        false
    }

    /// A node.
    pub fn node(&self, number: Number) -> Option<&Node> {
        self.nodes.get(number)
    }

    /// A file.
    pub fn file(&self, number: Number) -> Option<&FileFacts> {
        match self.node(number) {
            Some(Node::File(facts)) => Some(facts),
            _ => None,
        }
    }

    /// What has this name in a folder.
    pub fn find(&self, folder: Number, name: &str) -> Option<Number> {
        match self.node(folder) {
            Some(Node::Folder(_, inside)) => inside.get(name).copied(),
            _ => None,
        }
    }

    /// Number of files.
    pub fn file_count(&self) -> usize {
        let is_file = |node: &&Node| matches!(node, Node::File(_));
        self.nodes.iter().filter(is_file).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(names: &[&str]) -> (Tree, Vec<String>) {
        Tree::new(names.iter().map(|name| FileFacts {
            name: (*name).to_owned(),
            size_bytes: 7,
            allocated_bytes: 4096,
            mtime_ns: 1,
        }))
    }

    #[test]
    fn slashes_make_folders() {
        let (tree, hidden) = tree(&["b", "a/x/1", "a/y", "a/x/2"]);
        assert_eq!(hidden, [""; 0]);
        assert_eq!(tree.file_count(), 4);
        let a = tree.find(0, "a").unwrap();
        let x = tree.find(a, "x").unwrap();
        let Some(Node::Folder(parent, inside)) = tree.node(x) else {
            panic!("no folder");
        };
        assert_eq!(*parent, a);
        assert_eq!(inside.keys().collect::<Vec<_>>(), ["1", "2"]);
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
}
