//! The instruments of `make figures` and of the lab's tests, as examples: programs that join several
//! crates and drive them on a real drive or under Callgrind. Nothing here is for other programs.
