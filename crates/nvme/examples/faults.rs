//! Writes the fault matrix as a table: `docs/faults.md`.

#[path = "../tests/support/mod.rs"]
mod support;

fn main() {
    print!("{}", support::table());
}
