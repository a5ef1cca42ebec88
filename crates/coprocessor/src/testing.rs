// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For the unit tests: a window in ordinary memory.

use crate::memory::Window;
use core::ptr::NonNull;
use std::boxed::Box;
use std::vec;

#[repr(C, align(4096))]
#[derive(Clone)]
struct Page([u8; 4096]);

/// A window of zeroes with a `'static` lifetime.
#[allow(unsafe_code)]
pub(crate) fn window(len: usize) -> Window {
    let pages = Box::leak(vec![Page([0; 4096]); len.div_ceil(4096)].into_boxed_slice());
    // SAFETY: leaked, aligned, and reached through the window alone.
    unsafe { Window::new(NonNull::from(pages).cast(), len) }
}
