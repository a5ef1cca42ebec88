//! Markers that Callgrind understands (Valgrind manual, "Client requests"); plain no-ops elsewhere.

/// `CT` in the upper bytes, then the request's number.
const TOOL: u64 = (b'C' as u64) << 24 | (b'T' as u64) << 16;
const DUMP_STATS: u64 = TOOL;
const TOGGLE_COLLECT: u64 = TOOL + 2;

/// Starts counting, from its return on. A call, because Callgrind counts whole basic blocks.
#[inline(never)]
pub fn begin() {
    request(TOGGLE_COLLECT);
}

/// Stops counting, from its call on.
#[inline(never)]
pub fn end() {
    request(TOGGLE_COLLECT);
}

/// Writes the counts since the last dump to a separate file.
#[inline(never)]
pub fn dump() {
    request(DUMP_STATS);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn request(number: u64) {
    let arguments = [number, 0, 0, 0, 0, 0];
    // SAFETY: the four rotations add up to 128 bits and so change nothing; Valgrind recognises
    // them, reads the arguments and sets rdx.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0_u64 => _,
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_number: u64) {}
