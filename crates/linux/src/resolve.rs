// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resolves a name from the user to a drive.

use crate::pci::{self, Controller, KernelName, PciAddress};
use crate::sysfs;
use crate::{Error, Result, Roots};
use std::fmt;
use std::path::{Path, PathBuf};

/// The prefix of CharIO's device names.
const CHARIO: &str = "chardisk";

/// What a name means. Its `Display` is one line for the user.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The name as given.
    pub name: String,
    /// The controller.
    pub controller: Controller,
    /// The namespace, if the name selects one.
    pub namespace: Option<pci::Namespace>,
    /// The partition's block device, such as `nvme0n1p2`, if the name means one.
    pub partition: Option<String>,
}

impl Resolved {
    /// The namespace: the named one, or the controller's only one.
    ///
    /// # Errors
    /// [`Error::BadName`] if the controller has several, [`Error::NoSuchDevice`] if it has none
    /// that the kernel knows of.
    pub fn only_namespace(&self) -> Result<&pci::Namespace> {
        match (&self.namespace, self.controller.namespaces.as_slice()) {
            (Some(namespace), _) | (None, [namespace]) => Ok(namespace),
            (None, []) => Err(Error::NoSuchDevice {
                name: self.name.clone(),
                why: format!(
                    "the kernel shows no namespace of {}; its driver is {}",
                    self.controller.address,
                    self.controller.driver.as_deref().unwrap_or("none")
                ),
            }),
            (None, _) => Err(Error::BadName {
                name: self.name.clone(),
                why: "the controller has several namespaces: name one, such as nvme0n1",
            }),
        }
    }

    /// The block device, in `/dev`.
    pub fn block_path(&self, roots: &Roots) -> Option<PathBuf> {
        let name = match &self.partition {
            Some(partition) => Some(partition),
            None => self.only_namespace().ok()?.block.as_ref(),
        };
        Some(roots.dev.join(name?))
    }

    /// The passthrough device, in `/dev`; `None` for a partition.
    pub fn character_path(&self, roots: &Roots) -> Option<PathBuf> {
        if self.partition.is_some() {
            return None;
        }
        Some(
            roots
                .dev
                .join(self.only_namespace().ok()?.character.as_ref()?),
        )
    }

    /// CharIO's device, in `/dev`, while the controller is bound to its driver.
    pub fn chario_path(&self, roots: &Roots) -> Option<PathBuf> {
        let namespace = self.only_namespace().ok()?;
        Some(roots.dev.join(namespace.chario.as_ref()?))
    }

    /// The controller's own device, in `/dev`.
    pub fn controller_path(&self, roots: &Roots) -> Option<PathBuf> {
        Some(roots.dev.join(self.controller.kernel_name.as_ref()?))
    }
}

impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let controller = &self.controller;
        write!(f, "{}", controller.address)?;
        let driver = controller.driver.as_deref().unwrap_or("no driver");
        match &controller.kernel_name {
            Some(name) => write!(f, " ({name}")?,
            None => write!(f, " ({driver}")?,
        }
        if let Some(model) = &controller.model {
            write!(f, ", {model}")?;
        }
        if let Some(serial) = &controller.serial {
            write!(f, ", serial {serial}")?;
        }
        f.write_str(")")?;
        if let Some(namespace) = &self.namespace {
            if let Some(nsid) = namespace.nsid {
                write!(f, ", namespace {nsid}")?;
            }
            if let Some(block) = namespace.block.as_ref().or(namespace.chario.as_ref()) {
                write!(f, " ({block})")?;
            }
        }
        if let Some(partition) = &self.partition {
            write!(f, ", partition {partition}")?;
        }
        Ok(())
    }
}

/// Finds what `name` means: `/dev/nvme0n1`, `/dev/ng0n1`, `/dev/chardisk0n1`, `/dev/nvme0`, any
/// link to one of them (`/dev/disk/by-id/...`), the same without `/dev/`, or a PCI address.
///
/// # Errors
/// [`Error::BadName`], [`Error::NoSuchDevice`] or [`Error::NotPciNvme`].
pub fn resolve(roots: &Roots, name: &str) -> Result<Resolved> {
    if let Ok(address) = name.parse::<PciAddress>() {
        return Ok(Resolved {
            name: name.to_owned(),
            controller: Controller::at(roots, address)?,
            namespace: None,
            partition: None,
        });
    }
    let kernel_name = kernel_name(roots, name)?;
    if kernel_name.starts_with(CHARIO) {
        return by_chario_name(roots, name, &kernel_name);
    }
    let Some(parts) = pci::parse_kernel_name(&kernel_name) else {
        return Err(Error::NotPciNvme {
            name: name.to_owned(),
            why: format!("it is {kernel_name}"),
        });
    };
    by_kernel_name(roots, name, &kernel_name, parts)
}

/// The last part of the path that `name` refers to.
fn kernel_name(roots: &Roots, name: &str) -> Result<String> {
    let bad = |why| Error::BadName {
        name: name.to_owned(),
        why,
    };
    if name.is_empty() {
        return Err(bad("it is empty"));
    }
    if !name.contains('/') {
        return match pci::parse_kernel_name(name) {
            Some(_) => Ok(name.to_owned()),
            None if name.starts_with(CHARIO) => Ok(name.to_owned()),
            None => Err(bad(
                "it is not a path, a PCI address or the name of an NVMe device",
            )),
        };
    }
    let path = Path::new(name);
    let target = match std::fs::canonicalize(path) {
        Ok(target) => target,
        // A drive that was unbound from its driver has no node; its name may still be resolved.
        Err(_) if path.parent() == Some(&roots.dev) => path.to_path_buf(),
        Err(error) => {
            return Err(Error::NoSuchDevice {
                name: name.to_owned(),
                why: error.to_string(),
            });
        }
    };
    sysfs::name_of(&target).ok_or_else(|| bad("it is not the path of a device"))
}

fn by_kernel_name(
    roots: &Roots,
    name: &str,
    kernel_name: &str,
    parts: KernelName,
) -> Result<Resolved> {
    let all = pci::controllers(roots);
    let named = |controller: &&Controller| match parts.namespace {
        None => controller.kernel_name.as_deref() == Some(kernel_name),
        Some(_) => find_namespace(controller, parts).is_some(),
    };
    let Some(controller) = all.iter().find(named).cloned() else {
        return Err(no_controller(roots, name, parts, &all));
    };
    let namespace = find_namespace(&controller, parts);
    let partition = parts.partition.map(|_| kernel_name.to_owned());
    if let Some(partition) = &partition {
        let folder = roots.sys.join("class/block").join(partition);
        if !folder.exists() {
            return Err(Error::NoSuchDevice {
                name: name.to_owned(),
                why: format!("{} is not there", folder.display()),
            });
        }
    }
    Ok(Resolved {
        name: name.to_owned(),
        controller,
        namespace,
        partition,
    })
}

/// A namespace that CharIO's driver shows.
fn by_chario_name(roots: &Roots, name: &str, kernel_name: &str) -> Result<Resolved> {
    for controller in pci::controllers(roots) {
        let is_it = |namespace: &&pci::Namespace| namespace.chario.as_deref() == Some(kernel_name);
        if let Some(namespace) = controller.namespaces.iter().find(is_it).cloned() {
            return Ok(Resolved {
                name: name.to_owned(),
                controller,
                namespace: Some(namespace),
                partition: None,
            });
        }
    }
    Err(Error::NoSuchDevice {
        name: name.to_owned(),
        why: "no controller is bound to CharIO's driver with a namespace of that name".into(),
    })
}

fn find_namespace(controller: &Controller, wanted: KernelName) -> Option<pci::Namespace> {
    let matches = |namespace: &&pci::Namespace| {
        let names = [&namespace.block, &namespace.character];
        names.into_iter().flatten().any(|name| {
            pci::parse_kernel_name(name).is_some_and(|found| {
                (found.instance, found.namespace) == (wanted.instance, wanted.namespace)
            })
        })
    };
    wanted.namespace?;
    controller.namespaces.iter().find(matches).cloned()
}

/// Explains why no controller has the name: it is on a fabric, or was unbound from its driver.
fn no_controller(roots: &Roots, name: &str, parts: KernelName, all: &[Controller]) -> Error {
    let class = roots.sys.join(format!("class/nvme/nvme{}", parts.instance));
    let name = name.to_owned();
    if let Some(transport) = sysfs::text(&class.join("transport")) {
        if transport != "pcie" {
            let why = format!("it is reached over {transport}");
            return Error::NotPciNvme { name, why };
        }
    }
    let others: Vec<String> = all
        .iter()
        .filter(|controller| controller.kernel_name.is_none())
        .map(|controller| {
            let driver = controller.driver.as_deref().unwrap_or("no driver");
            format!("{} ({driver})", controller.address)
        })
        .collect();
    let why = match others.as_slice() {
        [] => "no device of that name exists".to_owned(),
        _ => format!(
            "no device of that name exists; these controllers have no device: {}",
            others.join(", ")
        ),
    };
    Error::NoSuchDevice { name, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fake::Tree;

    #[test]
    fn every_way_to_name_a_drive_leads_to_it() {
        let tree = Tree::with_drive();
        tree.file("dev/nvme0n1", "").file("dev/nvme0", "");
        tree.file("dev/ng0n1", "").file("dev/nvme0n1p1", "");
        let by_id = tree.path().join("dev/by-id");
        std::os::unix::fs::symlink(tree.path().join("dev/nvme0n1"), &by_id).unwrap();
        let roots = tree.roots();
        let dev = |name: &str| tree.path().join("dev").join(name).display().to_string();
        let names = [
            "01:00.0".into(),
            "0000:01:00.0".into(),
            "nvme0".into(),
            dev("nvme0"),
            "nvme0n1".into(),
            dev("nvme0n1"),
            dev("ng0n1"),
            dev("by-id"),
        ];
        for name in &names {
            let found = resolve(&roots, name).unwrap();
            assert_eq!(
                found.controller.address.to_string(),
                "0000:01:00.0",
                "{name}"
            );
            assert_eq!(found.only_namespace().unwrap().nsid, Some(1), "{name}");
            assert_eq!(found.block_path(&roots), Some(roots.dev.join("nvme0n1")));
        }
        let found = resolve(&roots, &dev("by-id")).unwrap();
        assert_eq!(
            found.to_string(),
            "0000:01:00.0 (nvme0, Test Drive, serial abc 1), namespace 1 (nvme0n1)"
        );
        let found = resolve(&roots, "nvme0n1p1").unwrap();
        assert_eq!(found.partition.as_deref(), Some("nvme0n1p1"));
        assert_eq!(found.character_path(&roots), None);
    }

    #[test]
    fn a_namespace_of_chario_is_found_by_its_device() {
        let tree = Tree::with_drive();
        let device = "sys/devices/pci0000:00/0000:01:00.0";
        std::fs::remove_dir_all(tree.path().join(device).join("nvme")).unwrap();
        tree.file(&format!("{device}/chario/chardisk0n1/nsid"), "1\n")
            .file(&format!("{device}/chario/chardisk0n2/nsid"), "2\n")
            .file("dev/chardisk0n2", "");
        let roots = tree.roots();
        let node = tree.path().join("dev/chardisk0n2").display().to_string();
        for name in ["chardisk0n2", &node] {
            let found = resolve(&roots, name).unwrap();
            assert_eq!(found.only_namespace().unwrap().nsid, Some(2));
            assert_eq!(found.chario_path(&roots).unwrap(), Path::new(&node));
            assert_eq!(found.block_path(&roots), None);
        }
        let error = resolve(&roots, "chardisk0n3").unwrap_err();
        assert!(matches!(error, Error::NoSuchDevice { .. }), "{error}");
    }

    #[test]
    fn what_is_no_drive_is_refused_with_the_reason() {
        let tree = Tree::with_drive();
        tree.file("dev/sda", "");
        tree.file("sys/class/nvme/nvme7/transport", "tcp\n");
        let roots = tree.roots();
        let error = |name: &str| resolve(&roots, name).unwrap_err();
        assert!(matches!(error(""), Error::BadName { .. }));
        assert!(matches!(error("sda"), Error::BadName { .. }));
        assert!(matches!(error("nvme9n1"), Error::NoSuchDevice { .. }));
        assert!(matches!(error("nvme0n2"), Error::NoSuchDevice { .. }));
        assert!(matches!(error("nvme0n1p2"), Error::NoSuchDevice { .. }));
        assert!(matches!(error("02:00.0"), Error::NoSuchDevice { .. }));
        assert!(matches!(
            error("/nowhere/nvme0"),
            Error::NoSuchDevice { .. }
        ));
        assert!(error("nvme7n1").to_string().contains("over tcp"));
        let sda = tree.path().join("dev/sda").display().to_string();
        assert!(matches!(error(&sda), Error::NotPciNvme { .. }));
    }
}
