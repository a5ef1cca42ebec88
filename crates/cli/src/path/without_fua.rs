//! A device whose force unit access is not used: some drives, and some that are emulated, take the
//! flag and ignore it. What needs it then flushes.

use block::{Completion, Device, Geometry, RamDisk, Refused, Request};

/// The device, which says that it has no force unit access.
struct WithoutFua {
    device: Box<dyn Device>,
    geometry: Geometry,
}

/// Puts the wrapper around `device`.
pub fn wrap(device: &mut Box<dyn Device>) {
    let Ok(nothing) = RamDisk::<_, 1>::new([0; 512], 9) else {
        return;
    };
    let device_itself = std::mem::replace(device, Box::new(nothing));
    let mut geometry = *device_itself.geometry();
    geometry.features.fua = false;
    *device = Box::new(WithoutFua {
        device: device_itself,
        geometry,
    });
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
    use block::{Buffer, Error, blocking};

    #[test]
    fn a_write_with_fua_is_refused_and_others_pass() {
        let mut device: Box<dyn Device> = Box::new(RamDisk::<_, 4>::new(vec![0; 4096], 9).unwrap());
        assert!(device.geometry().features.fua);
        wrap(&mut device);
        let buffer = Buffer::from_static(Box::leak(vec![7; 512].into_boxed_slice()));
        let refused = blocking::write(device.as_mut(), 1, buffer, true);
        assert_eq!(refused.result, Err(Error::Unsupported));
        let written = blocking::write(device.as_mut(), 1, refused.buffer, false);
        assert_eq!(written.result, Ok(()));
    }
}
