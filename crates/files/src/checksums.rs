// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a new file has checksums: by the user's option, or otherwise by the volume's format.

/// What is asked for a new file. By default it has checksums if the volume does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksums {
    /// A volume that was formatted without checksums is refused.
    pub checksums: bool,
    /// Store no checksums, although the volume has them.
    pub no_checksums: bool,
}

impl Checksums {
    /// No checksums.
    pub const NONE: Self = Self {
        checksums: false,
        no_checksums: true,
    };

    /// Whether a new file gets checksums on a volume with or without them. None: the user requires
    /// checksums, but the volume has none.
    pub const fn on(self, volume_has_them: bool) -> Option<bool> {
        match (self.checksums, self.no_checksums, volume_has_them) {
            (true, _, false) => None,
            (_, is_without, can) => Some(can && !is_without),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_made_for_checksums_gives_them_to_every_file() {
        let flags = |checksums, no_checksums| Checksums {
            checksums,
            no_checksums,
        };
        let silent = flags(false, false);
        assert_eq!(
            (silent.on(true), silent.on(false)),
            (Some(true), Some(false))
        );
        let wanted = flags(true, false);
        assert_eq!((wanted.on(true), wanted.on(false)), (Some(true), None));
        let without = flags(false, true);
        assert_eq!(
            (without.on(true), without.on(false)),
            (Some(false), Some(false))
        );
    }
}
