// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C library's own functions, behind the ones of `calls`.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The function of this name in the libraries after this one.
pub struct Real {
    name: &'static CStr,
    found: AtomicPtr<libc::c_void>,
}

impl Real {
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The function, as a function pointer of type `F`; None if there is none.
    ///
    /// # Safety
    /// `F` is the type of a pointer to this function.
    pub unsafe fn get<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut libc::c_void>()) };
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: the name ends with a zero.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(found, Ordering::Relaxed);
        }
        // SAFETY: it is a pointer of this size, not null, to what the caller says.
        (!found.is_null()).then(|| unsafe { transmute_copy(&found) })
    }
}
