// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this machine lets a process serve.
#![allow(dead_code)] // each program that has this module uses a part of it

/// Whether the kernel refuses this process a userfaultfd, which it says; `system_calls`: one that
/// serves the faults of system calls too.
pub fn is_missing(system_calls: bool) -> bool {
    /// `UFFD_USER_MODE_ONLY`.
    const USER_MODE_ONLY: i32 = 1;
    let flags = libc::O_CLOEXEC | if system_calls { 0 } else { USER_MODE_ONLY };
    // SAFETY: the call has one number as its argument; a file that it returns is closed below.
    let file = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    if file >= 0 {
        // SAFETY: the file was opened above.
        unsafe { libc::close(file as i32) };
        return false;
    }
    let error = std::io::Error::last_os_error();
    println!("SKIPPED: userfaultfd: {error}; root has it, or vm.unprivileged_userfaultfd=1");
    true
}

/// `UFFDIO_COPY`, which gives a page its content.
const COPY: u32 = 0xc028_aa03;

/// From now on the kernel refuses this thread, and what it starts, any userfaultfd with `errno`, as
/// the filters of containers do.
pub fn refuse(errno: i32) -> std::io::Result<()> {
    filter(libc::SYS_userfaultfd, None, errno)
}

/// From now on the kernel has no memory for pages to which this thread gives their content.
pub fn refuse_memory() -> std::io::Result<()> {
    filter(libc::SYS_ioctl, Some(COPY), libc::ENOMEM)
}

/// Answers a system call of this thread, if its second argument is `argument`, with `errno`.
/// Allocates nothing, so it may run between fork and exec.
fn filter(call: i64, argument: Option<u32>, errno: i32) -> std::io::Result<()> {
    let statement = |code, value| libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k: value,
    };
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let unless = |value, skipped| libc::sock_filter {
        jf: skipped,
        ..statement(equal, value)
    };
    let (at, wanted) = match argument {
        Some(argument) => (24, argument), // the low half of the second argument
        None => (0, call as u32),
    };
    let mut filter = [
        statement(load, 0), // the number of the call
        unless(call as u32, 3),
        statement(load, at),
        unless(wanted, 1),
        statement(answer, libc::SECCOMP_RET_ERRNO | errno as u32),
        statement(answer, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the calls have numbers, and a program that lives until the second has ended.
    let result = unsafe {
        match libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) {
            0 => libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ),
            result => result,
        }
    };
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
