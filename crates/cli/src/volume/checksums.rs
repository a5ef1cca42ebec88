//! Whether a new file has checksums: what the user says, and otherwise what the volume was made for.

use clap::Args;

/// The flags of verbs that make a file.
#[derive(Clone, Copy, Debug, Args)]
pub struct Checksums {
    /// Refuse a volume that was made without --checksums: where files can have them, a new file does
    #[arg(long)]
    pub checksums: bool,
    /// Keep no checksums, although the volume was made for them
    #[arg(long, conflicts_with = "checksums")]
    pub no_checksums: bool,
}

impl Checksums {
    /// None at all.
    pub const NONE: Self = Self {
        checksums: false,
        no_checksums: true,
    };

    /// Whether a file has them, on a volume on which files can or cannot. None: the user insists, and
    /// the volume has none.
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
