// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removes what identifies a machine, its network, its users or its drives from a report.
//!
//! Every string of the report passes through here as the last step, so a new item of the report
//! needs no care of its own. A drive's serial numbers get numbered placeholders: the same text gets
//! the same placeholder everywhere in one report.

use serde_json::Value;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Secrets that are shorter are replaced only as whole words: `a` is a valid serial number.
const SUBSTRING_BYTES: usize = 6;

/// What is replaced, and by what.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// Longest first, so that no secret is replaced in part.
    secrets: Vec<(String, String)>,
}

impl Redactor {
    /// Replaces `secret` by `placeholder` from now on.
    pub fn add(&mut self, secret: &str, placeholder: impl Into<String>) {
        let secret = secret.trim();
        if secret.is_empty() || self.secrets.iter().any(|(known, _)| known == secret) {
            return;
        }
        self.secrets.push((secret.to_owned(), placeholder.into()));
        self.secrets
            .sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
    }

    /// Replaces secrets, home directories and network addresses in a text.
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (secret, placeholder) in &self.secrets {
            text = replace(&text, secret, placeholder);
        }
        addresses(&homes(&text))
    }

    /// The same in every string of a JSON value, keys excluded.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(list) => list.iter_mut().for_each(|one| self.value(one)),
            Value::Object(object) => object.values_mut().for_each(|one| self.value(one)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Replaces `secret`, a short one only between characters that are not letters or digits. Names
/// below /proc are the kernel's and stay: a machine may be called `vm`.
fn replace(text: &str, secret: &str, placeholder: &str) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(at) = rest.find(secret) {
        let (head, tail) = rest.split_at(at);
        let until = text.get(..text.len() - tail.len()).unwrap_or_default();
        let in_proc = until
            .rsplit(char::is_whitespace)
            .next()
            .is_some_and(|word| word.contains("/proc/"));
        let tail = tail.strip_prefix(secret).unwrap_or_default();
        before = head.chars().next_back().or(before);
        let is_inner = |next: Option<char>| next.is_some_and(char::is_alphanumeric);
        let is_word = !is_inner(before) && !is_inner(tail.chars().next());
        done += head;
        done += if !in_proc && (is_word || secret.len() >= SUBSTRING_BYTES) {
            placeholder
        } else {
            secret
        };
        before = secret.chars().next_back();
        rest = tail;
    }
    done + rest
}

/// Replaces the name after `/home/`.
fn homes(text: &str) -> String {
    let mut parts = text.split("/home/");
    let mut done = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part
            .find(|c: char| c == '/' || c.is_whitespace())
            .unwrap_or(part.len());
        let (_, rest) = part.split_at(end);
        done += "/home/USER";
        done += rest;
    }
    done
}

/// Replaces MAC and IP addresses. A PCI address has the form of neither.
fn addresses(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '-' | '_');
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        let trimmed = word.trim_end_matches(['.', ':', '-']);
        done += &address(trimmed);
        done += word.get(trimmed.len()..).unwrap_or_default();
        let other = tail.find(is_part).unwrap_or(tail.len());
        let (between, after) = tail.split_at(other);
        done += between;
        rest = after;
    }
    done
}

fn address(word: &str) -> String {
    let is_mac = [':', '-'].into_iter().any(|separator| {
        let groups: Vec<&str> = word.split(separator).collect();
        let is_pair = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
        groups.len() == 6 && groups.iter().all(is_pair)
    });
    if is_mac {
        return "MAC".to_owned();
    }
    let is_long = word.len() > 2;
    if is_long && (word.parse::<Ipv6Addr>().is_ok() || word.parse::<SocketAddr>().is_ok()) {
        return "IP".to_owned();
    }
    let part = |part: &str| match part.parse::<Ipv4Addr>() {
        Ok(_) => "IP".to_owned(),
        Err(_) => part.to_owned(),
    };
    word.split(':').map(part).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced_and_pci_addresses_stay() {
        let mut redactor = Redactor::default();
        redactor.add("S5H9NX0R123456", "SERIAL-1");
        redactor.add("a", "SERIAL-2");
        redactor.add("bench-pc", "HOST");
        redactor.add("vm", "HOST");
        redactor.add("", "NEVER");
        for (text, expected) in [
            ("nqn.2014:S5H9NX0R123456 ok", "nqn.2014:SERIAL-1 ok"),
            ("xxS5H9NX0R123456yy", "xxSERIAL-1yy"),
            ("a data aa a", "SERIAL-2 data aa SERIAL-2"),
            ("bench-pc kernel: nvme", "HOST kernel: nvme"),
            (
                "vm: echo 16 > /proc/sys/vm/nr_hugepages on vm",
                "HOST: echo 16 > /proc/sys/vm/nr_hugepages on HOST",
            ),
            ("0000:01:00.0 x4", "0000:01:00.0 x4"),
            ("from 10.0.0.2:4420 and 192.168.1.7.", "from IP and IP."),
            ("ip=10.0.0.2::10.0.0.1:x", "ip=IP::IP:x"),
            ("fe80::1%eth0 52:54:00:12:34:56", "IP%eth0 MAC"),
            ("52-54-00-12-34-56", "MAC"),
            (
                "/home/eve/disk.img /home/bob",
                "/home/USER/disk.img /home/USER",
            ),
            (
                "NVMe 1.4.0 on 6.1.0-13-arm64",
                "NVMe 1.4.0 on 6.1.0-13-arm64",
            ),
        ] {
            assert_eq!(redactor.text(text), expected, "{text}");
        }
    }

    #[test]
    fn every_string_of_a_value_is_redacted() {
        let mut redactor = Redactor::default();
        redactor.add("secret-serial", "SERIAL-1");
        let mut value =
            serde_json::json!({"a": ["secret-serial", {"b": "x secret-serial"}], "n": 1});
        redactor.value(&mut value);
        assert_eq!(
            value,
            serde_json::json!({"a": ["SERIAL-1", {"b": "x SERIAL-1"}], "n": 1})
        );
    }
}
