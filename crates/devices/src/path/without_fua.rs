// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device whose force unit access is not used: some drives, and some emulated ones, accept the
//! flag and ignore it. Writes that need it are followed by a flush instead.

use block::{Completion, Device, Geometry, Refused, Request};

/// A device that reports no support for force unit access.
struct WithoutFua {
    device: Box<dyn Device>,
    geometry: Geometry,
}

/// Puts the wrapper around `device`.
pub fn wrap(device: Box<dyn Device>) -> Box<dyn Device> {
    let mut geometry = *device.geometry();
    geometry.features.fua = false;
    Box::new(WithoutFua { device, geometry })
}

impl Device for WithoutFua {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        match self.geometry.check(&request.operation) {
            Ok(()) => self.device.submit(request),
            Err(error) => Err(Refused { error, request }),
        }
    }

    fn kick(&mut self) {
        self.device.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        self.device.poll()
    }

    fn outstanding(&self) -> usize {
        self.device.outstanding()
    }

    fn wait(&mut self, timeout_us: u32) {
        self.device.wait(timeout_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{Buffer, Error, RamDisk, blocking};

    #[test]
    fn a_write_with_fua_is_refused_and_others_pass() {
        let device: Box<dyn Device> = Box::new(RamDisk::<_, 4>::new(vec![0; 4096], 9).unwrap());
        assert!(device.geometry().features.fua);
        let mut device = wrap(device);
        let buffer = Buffer::from_static(Box::leak(vec![7; 512].into_boxed_slice()));
        let refused = blocking::write(device.as_mut(), 1, buffer, true);
        assert_eq!(refused.result, Err(Error::Unsupported));
        let written = blocking::write(device.as_mut(), 1, refused.buffer, false);
        assert_eq!(written.result, Ok(()));
    }
}
