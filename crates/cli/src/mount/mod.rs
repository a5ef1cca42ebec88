//! The files of a volume as a folder of this machine, by FUSE.
//!
//! | module | contents |
//! | --- | --- |
//! | `tree` | the volume's names as folders and files |
//! | `fuse` | the kernel's requests: names are answered from the tree, reads go to the service |
//! | `reads` | open files, and reads of them, on the thread that has mounted the volume |

pub mod fuse;
pub mod reads;
pub mod tree;
