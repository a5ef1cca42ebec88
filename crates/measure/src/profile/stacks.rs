// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses stacks as printed by `perf script -F comm,ip,sym,dso`.

/// One function of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its name, or the name of its file if unknown.
    pub function: String,
    /// Whether it belongs to the kernel.
    pub in_kernel: bool,
}

/// One sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The thread's name.
    pub thread: String,
    /// The innermost function first.
    pub frames: Vec<Frame>,
}

/// Parses all samples. Other lines are ignored.
pub fn parse(text: &str) -> Vec<Stack> {
    let mut stacks: Vec<Stack> = Vec::new();
    for line in text.lines() {
        if line.trim().is_empty() {
            continue;
        }
        if !line.starts_with([' ', '\t']) {
            stacks.push(Stack {
                thread: thread(line.trim()),
                frames: Vec::new(),
            });
        } else if let (Some(stack), Some(frame)) = (stacks.last_mut(), frame(line)) {
            stack.frames.push(frame);
        }
    }
    stacks
}

/// Removes the numbers of kernel threads, which carry no information: `kworker/1:1H-kblockd` is
/// `kworker`.
fn thread(name: &str) -> String {
    let kernel = [
        "kworker",
        "swapper",
        "ksoftirqd",
        "jbd2",
        "migration",
        "rcu",
        "irq",
    ];
    let cut = kernel.iter().find(|start| name.starts_with(**start));
    cut.map_or(name, |start| *start).to_owned()
}

/// `  ffffffff81234567 function+0x12 (object)`; `None` for an address without a meaning.
fn frame(line: &str) -> Option<Frame> {
    let (_, rest) = line.trim().split_once(' ')?;
    let (function, object) = rest.rsplit_once(" (")?;
    let object = object.strip_suffix(')')?;
    let in_kernel = object.starts_with("[kernel")
        || object.starts_with("[guest.kernel")
        || object.ends_with(".ko")
        || (object.starts_with('[') && !object.starts_with("[unknown") && object != "[vdso]");
    let function = function.split("+0x").next().unwrap_or(function).trim();
    let known = !function.is_empty() && function != "[unknown]";
    if !known && object.starts_with("[unknown") {
        return None;
    }
    let file = object.rsplit('/').next().unwrap_or(object);
    Some(Frame {
        function: if known {
            function.to_owned()
        } else {
            format!("in {file}")
        },
        in_kernel,
    })
}
