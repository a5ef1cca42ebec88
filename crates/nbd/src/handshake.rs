// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of the fixed newstyle handshake (proto.md, "Option types"): each has one reply or
//! several, and leaves the session in the handshake, in transmission or at its end.

use crate::wire::{self, info, option, option_reply, put_option_reply};
use crate::{End, Export};
use block::fields::Fields;

/// Whether a connection is encrypted (proto.md, "TLS support": a server with certificates is
/// FORCEDTLS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// The server has no certificates: STARTTLS is refused.
    #[default]
    Unsupported,
    /// Nothing but STARTTLS and ABORT is accepted.
    Required,
    /// It is.
    Established,
}

/// What the options of a client have agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Whether the connection is encrypted.
    pub tls: Tls,
    /// No zeroes after the reply to EXPORT_NAME.
    pub no_zeroes: bool,
    /// Reads have structured replies.
    pub structured: bool,
    /// BLOCK_STATUS may ask for base:allocation.
    pub allocation: bool,
}

/// What comes after an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another option.
    Option,
    /// A TLS handshake, and then options again.
    Tls,
    /// Requests.
    Transmission,
    /// Nothing.
    Closed(End),
}

/// The error replies of options, each with a text for people.
struct Refusal(u32, &'static str);

const MALFORMED: Refusal = Refusal(option_reply::ERR_INVALID, "the option's data is malformed");
const UNKNOWN: Refusal = Refusal(
    option_reply::ERR_UNKNOWN,
    "this server has no export of that name",
);

/// Answers an option with its data.
pub fn answer(
    export: &Export,
    agreed: &mut Agreed,
    code: u32,
    data: &[u8],
    out: &mut Vec<u8>,
) -> Next {
    let result = match code {
        option::STARTTLS => match agreed.tls {
            Tls::Required if data.is_empty() => {
                put_option_reply(out, code, option_reply::ACK, &[]);
                return Next::Tls;
            }
            Tls::Unsupported => Err(Refusal(
                option_reply::ERR_UNSUP,
                "this server does not support TLS",
            )),
            _ => Err(MALFORMED),
        },
        option::EXPORT_NAME if agreed.tls == Tls::Required => {
            return Next::Closed(End::TlsRequired);
        }
        option::EXPORT_NAME => return export_name(export, *agreed, data, out),
        option::ABORT => {
            put_option_reply(out, code, option_reply::ACK, &[]);
            return Next::Closed(End::Aborted);
        }
        _ if agreed.tls == Tls::Required => Err(Refusal(
            option_reply::ERR_TLS_REQD,
            "this server requires TLS",
        )),
        option::LIST => list(export, data, out),
        option::INFO | option::GO => match go(export, *agreed, code, data, out) {
            Ok(()) if code == option::GO => {
                put_option_reply(out, code, option_reply::ACK, &[]);
                return Next::Transmission;
            }
            result => result,
        },
        option::STRUCTURED_REPLY if data.is_empty() => {
            agreed.structured = true;
            Ok(())
        }
        option::STRUCTURED_REPLY => Err(MALFORMED),
        option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
            contexts(export, agreed, code, data, out)
        }
        _ => Err(Refusal(
            option_reply::ERR_UNSUP,
            "this server does not support the option",
        )),
    };
    match result {
        Ok(()) => put_option_reply(out, code, option_reply::ACK, &[]),
        Err(Refusal(kind, text)) => put_option_reply(out, code, kind, text.as_bytes()),
    }
    Next::Option
}

/// Answers an option whose data is too long to be kept.
pub fn refuse_long(code: u32, out: &mut Vec<u8>) -> Next {
    if code == option::EXPORT_NAME {
        return Next::Closed(End::UnknownExport);
    }
    let text = b"the option's data is too long";
    put_option_reply(out, code, option_reply::ERR_TOO_BIG, text);
    Next::Option
}

fn is_named(export: &Export, name: &[u8]) -> bool {
    name.is_empty() || name == export.name.as_bytes()
}

/// NBD_OPT_EXPORT_NAME has no error reply: the connection ends.
fn export_name(export: &Export, agreed: Agreed, data: &[u8], out: &mut Vec<u8>) -> Next {
    if !is_named(export, data) {
        return Next::Closed(End::UnknownExport);
    }
    out.extend(export.size_bytes.to_be_bytes());
    out.extend(export.flags(agreed.structured).to_be_bytes());
    if !agreed.no_zeroes {
        out.extend([0; 124]);
    }
    Next::Transmission
}

fn list(export: &Export, data: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    if !data.is_empty() {
        return Err(MALFORMED);
    }
    let mut reply = (export.name.len() as u32).to_be_bytes().to_vec();
    reply.extend(export.name.as_bytes());
    reply.extend(export.description.as_bytes());
    put_option_reply(out, option::LIST, option_reply::SERVER, &reply);
    Ok(())
}

fn go(
    export: &Export,
    agreed: Agreed,
    code: u32,
    data: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let mut fields = Fields(data);
    let name = wire::text(&mut fields).ok_or(MALFORMED)?;
    let count = usize::from(fields.u16_be().ok_or(MALFORMED)?);
    if fields.0.len() != 2 * count {
        return Err(MALFORMED);
    }
    if !is_named(export, name.as_bytes()) {
        return Err(UNKNOWN);
    }
    let mut put = |kind: u16, data: &[u8]| {
        let reply = [&kind.to_be_bytes(), data].concat();
        put_option_reply(out, code, option_reply::INFO, &reply);
    };
    let flags = export.flags(agreed.structured).to_be_bytes();
    put(
        info::EXPORT,
        &[&export.size_bytes.to_be_bytes()[..], &flags].concat(),
    );
    let (mut named, mut described) = (false, false);
    while let Some(kind) = fields.u16_be() {
        named |= kind == info::NAME;
        described |= kind == info::DESCRIPTION;
    }
    if named {
        put(info::NAME, export.name.as_bytes());
    }
    if described {
        put(info::DESCRIPTION, export.description.as_bytes());
    }
    let sizes = [
        export.minimum_bytes(),
        export.preferred_bytes(),
        export.max_payload_bytes,
    ];
    put(info::BLOCK_SIZE, &sizes.map(u32::to_be_bytes).concat());
    Ok(())
}

fn contexts(
    export: &Export,
    agreed: &mut Agreed,
    code: u32,
    data: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let sets = code == option::SET_META_CONTEXT;
    if sets {
        // Each SET replaces the ones before, and one that fails selects nothing.
        agreed.allocation = false;
    }
    if sets && !agreed.structured {
        return Err(Refusal(
            option_reply::ERR_INVALID,
            "structured replies were not agreed on",
        ));
    }
    let mut fields = Fields(data);
    let name = wire::text(&mut fields).ok_or(MALFORMED)?;
    let count = fields.u32_be().ok_or(MALFORMED)?;
    // A list without a query, or of a whole namespace, has every context.
    let mut matches = !sets && count == 0;
    for _ in 0..count {
        let query = wire::text(&mut fields).ok_or(MALFORMED)?;
        matches |= query == wire::BASE_ALLOCATION || (!sets && query == "base:");
    }
    if !fields.0.is_empty() {
        return Err(MALFORMED);
    }
    if !is_named(export, name.as_bytes()) {
        return Err(UNKNOWN);
    }
    if matches {
        agreed.allocation |= sets;
        let mut reply = wire::BASE_ALLOCATION_ID.to_be_bytes().to_vec();
        reply.extend(wire::BASE_ALLOCATION.as_bytes());
        put_option_reply(out, code, option_reply::META_CONTEXT, &reply);
    }
    Ok(())
}
