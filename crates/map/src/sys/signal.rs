// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults as signals: a thread that touches a page of its own map gets SIGBUS, and serves the page
//! in the signal's handler.
//!
//! The handler runs on the thread that loaded or stored, between two of its instructions. It finds
//! the map by the address, in a list of this thread alone. What is not a fault of such a map goes
//! to the handler that was installed before, as if this one did not exist.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;

/// Serves the access to the byte at this offset, which is a store or not; false if it is an error.
pub trait Serve {
    /// Called in the signal's handler, on the thread that made it.
    fn serve(&self, offset: usize, store: bool) -> bool;
}

/// A map whose thread serves its own faults, until this is dropped.
#[derive(Debug)]
pub struct Served<S: Serve + 'static> {
    node: Box<Node>,
    serve: Box<S>,
}

#[derive(Debug)]
struct Node {
    addresses: Range<usize>,
    serve: *const dyn Serve,
    next: Cell<*const Node>,
}

thread_local! {
    // Without a destructor, so that the handler reads it at any time.
    static FIRST: Cell<*const Node> = const { Cell::new(ptr::null()) };
}

/// The action that was installed before this module's.
static BEFORE: OnceLock<Before> = OnceLock::new();

struct Before(UnsafeCell<libc::sigaction>);

// SAFETY: written once before it is shared, and only read afterwards.
unsafe impl Sync for Before {}
// SAFETY: it has no part of a thread.
unsafe impl Send for Before {}

impl<S: Serve + 'static> Served<S> {
    /// Serves the faults of this thread at `addresses` with `serve`.
    ///
    /// # Errors
    /// [`Error::System`]: the handler could not be installed.
    pub fn new(addresses: Range<usize>, serve: S) -> Result<Self> {
        install()?;
        let serve = Box::new(serve);
        let node = Box::new(Node {
            addresses,
            serve: &raw const *serve as *const dyn Serve,
            next: Cell::new(FIRST.get()),
        });
        FIRST.set(&raw const *node);
        Ok(Self { node, serve })
    }

    /// What serves.
    pub fn get(&self) -> &S {
        &self.serve
    }

    /// What served: an access is an error from now on.
    pub fn into_inner(self) -> S {
        self.unlink();
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: each field is read once, and `this` is neither used nor dropped afterwards.
        unsafe {
            drop(ptr::read(&raw const this.node));
            *ptr::read(&raw const this.serve)
        }
    }

    fn unlink(&self) {
        let mine = &raw const *self.node;
        let mut at = FIRST.get();
        if at == mine {
            return FIRST.set(self.node.next.get());
        }
        while !at.is_null() {
            // SAFETY: a node in the list of this thread lives until it is unlinked, on this thread:
            // neither `Served` nor `Node` is `Send`.
            let node = unsafe { &*at };
            if node.next.get() == mine {
                return node.next.set(self.node.next.get());
            }
            at = node.next.get();
        }
    }
}

impl<S: Serve + 'static> Drop for Served<S> {
    fn drop(&mut self) {
        self.unlink();
    }
}

/// Installs the handler, once in the process.
fn install() -> Result<()> {
    let mut failed = None;
    BEFORE.get_or_init(|| {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all zeroes is a valid action, and both calls get structures that are whole.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) = on_signal;
            action.sa_sigaction = handler as usize;
            // On the thread's own stack: the alternate one has room for little more than a message.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            if libc::sigaction(libc::SIGBUS, &raw const action, before.as_mut_ptr()) != 0 {
                failed = Some(io::Error::last_os_error());
            }
            Before(UnsafeCell::new(before.assume_init()))
        }
    });
    match failed {
        None => Ok(()),
        Some(error) => Err(Error::System {
            doing: "sigaction",
            error,
        }),
    }
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both to a handler with SA_SIGINFO, and errno is this thread's.
    let (address, errno) = unsafe { ((*info).si_addr() as usize, *libc::__errno_location()) };
    let mut at = FIRST.get();
    let mut is_served = false;
    while !at.is_null() {
        // SAFETY: as in `unlink`; the handler runs on the same thread.
        let node = unsafe { &*at };
        if node.addresses.contains(&address) {
            // SAFETY: the box of `Served` keeps it until the node is unlinked.
            let serve = unsafe { &*node.serve };
            is_served = serve.serve(address - node.addresses.start, is_store(context));
            break;
        }
        at = node.next.get();
    }
    if !is_served {
        pass_on(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Whether the access was a store: bit 1 of the page fault's error code.
#[cfg(target_arch = "x86_64")]
fn is_store(context: *mut c_void) -> bool {
    // SAFETY: the third argument of the handler is the context, whole.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    registers[libc::REG_ERR as usize] & 2 != 0
}

/// Elsewhere a map with this handler is read-only.
#[cfg(not(target_arch = "x86_64"))]
fn is_store(_: *mut c_void) -> bool {
    false
}

/// Does what would have happened without this handler.
fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get() else {
        return;
    };
    // SAFETY: it is only read since it was initialised.
    let action = unsafe { &*before.0.get() };
    match action.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // The access is repeated, with the action that the process would have had.
            // SAFETY: the structure is one that the kernel has given.
            unsafe { libc::sigaction(signal, action, ptr::null_mut()) };
        }
        handler if action.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: with SA_SIGINFO it is a function with these arguments.
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without SA_SIGINFO it is a function with the signal's number.
            let handler: extern "C" fn(i32) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
