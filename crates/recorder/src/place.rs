// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The source or the sink of a stream, as the user writes it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// An end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Standard input or output.
    Standard,
    /// A file.
    File(PathBuf),
    /// `udp://ADDR:PORT`.
    Udp(String),
    /// `tcp://ADDR:PORT`.
    Tcp(String),
    /// The pattern of bytes that encode their own offset.
    Pattern,
    /// Nowhere.
    Null,
}

/// The source of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct From(pub Place);

/// The sink of a playback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct To(pub Place);

impl fmt::Display for From {
    /// For messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Standard => f.write_str("standard input"),
            Place::File(path) => path.display().fmt(f),
            Place::Udp(address) => write!(f, "udp://{address}"),
            Place::Tcp(address) => write!(f, "tcp://{address}"),
            Place::Pattern => f.write_str("the pattern"),
            Place::Null => f.write_str("null"),
        }
    }
}

fn parse(text: &str, standard: &str) -> Result<Place, String> {
    let address = |address: &str| match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
            Ok(address.to_owned())
        }
        _ => Err(format!(
            "`{address}` is not ADDR:PORT, such as 127.0.0.1:7000"
        )),
    };
    match (text, text.split_once("://")) {
        ("", _) => Err("missing name".to_owned()),
        ("-", _) => Ok(Place::Standard),
        (text, _) if text == standard => Ok(Place::Standard),
        ("pattern", _) => Ok(Place::Pattern),
        ("null", _) => Ok(Place::Null),
        (_, Some(("udp", rest))) => address(rest).map(Place::Udp),
        (_, Some(("tcp", rest))) => address(rest).map(Place::Tcp),
        (_, Some((scheme, _))) => Err(format!("`{scheme}://` is neither udp:// nor tcp://")),
        _ => Ok(Place::File(PathBuf::from(text))),
    }
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match parse(text, "stdin")? {
            Place::Null => {
                Err("null is not a source; for a file of this name write ./null".to_owned())
            }
            place => Ok(Self(place)),
        }
    }
}

impl FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, "stdout").map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_streams() {
        let from = |text: &str| text.parse::<From>().map(|from| from.0);
        assert_eq!(from("stdin"), Ok(Place::Standard));
        assert_eq!(from("-"), Ok(Place::Standard));
        assert_eq!(from("stdout"), Ok(Place::File("stdout".into())));
        assert_eq!(
            from("udp://[::1]:7000"),
            Ok(Place::Udp("[::1]:7000".into()))
        );
        assert_eq!(from("./pattern"), Ok(Place::File("./pattern".into())));
        assert_eq!("null".parse::<To>().map(|to| to.0), Ok(Place::Null));
        for bad in [
            "",
            "null",
            "http://a:1",
            "udp://a",
            "tcp://:1",
            "tcp://a:99999",
        ] {
            assert!(from(bad).is_err(), "{bad}");
        }
    }
}
