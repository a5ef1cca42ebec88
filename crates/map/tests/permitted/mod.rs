//! What this machine lets a process serve.

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
