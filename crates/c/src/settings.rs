// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings as numbers and names: what C and Python have in place of types. 0 is what is not given.

use api::{Datatype, Error, Format, Hertz, Limit, Segmentation, SigmfOptions, Size, Time};
use std::time::Duration;

/// So many microseconds.
pub const fn micros(us: u64) -> Time {
    Time(Duration::from_micros(us))
}

/// The number of a stream's buffers.
///
/// # Errors
/// It is larger than any that the library takes, of which the least is `least`.
pub fn buffers(given: u32, least: u16) -> Result<Option<u16>, Error> {
    let most = api::MAX_BUFFERS;
    let count = u16::try_from(given).map_err(|_| {
        Error::usage(format!("{given} buffers")).hint(format!("give {least} to {most}"))
    })?;
    Ok((count > 0).then_some(count))
}

/// The format of this name.
///
/// # Errors
/// There is none.
pub fn format_named(name: &str) -> Result<Format, Error> {
    Format::named(name).ok_or_else(|| api::unknown_format(name))
}

/// When a segment ends, and which remain.
///
/// # Errors
/// A segment would end at two limits.
pub fn segments(bytes: u64, us: u64, keep_bytes: u64) -> Result<Segmentation, Error> {
    let segment = match (bytes, us) {
        (0, 0) => None,
        (bytes, 0) => Some(Limit::Bytes(bytes)),
        (0, us) => Some(Limit::Time(micros(us))),
        _ => {
            return Err(
                Error::usage("a segment ends at a size or at a time").hint("give one of them")
            );
        }
    };
    Ok(Segmentation {
        segment,
        keep: (keep_bytes > 0).then_some(Size(keep_bytes)),
    })
}

/// What SigMF says of samples: their type, their rate and their centre frequency in hertz.
///
/// # Errors
/// The type is unknown.
pub fn samples(
    datatype: Option<&str>,
    rate_hz: f64,
    frequency_hz: f64,
) -> Result<SigmfOptions, Error> {
    let hertz = |hertz: f64| (hertz != 0.0).then_some(Hertz(hertz));
    let datatype = datatype.map(str::parse::<Datatype>).transpose();
    Ok(SigmfOptions {
        datatype: datatype.map_err(|why| Error::usage(why).hint("as SigMF names it"))?,
        sample_rate: hertz(rate_hz),
        frequency: hertz(frequency_hz),
        ..SigmfOptions::default()
    })
}
