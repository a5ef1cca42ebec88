// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `files SOCKET ls`, `put NAME FILE`, `get NAME FILE`, `rm NAME`: on the verilated core behind
//! that socket.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use straightway_hwfs::{Front, Simulation};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("files: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<(), Box<dyn Error>> {
    let [socket, verb, rest @ ..] = words else {
        return Err("usage: files SOCKET ls | put NAME FILE | get NAME FILE | rm NAME".into());
    };
    let mut front = Front::new(Simulation::connect(Path::new(socket))?)?;
    front.mount(*verb == "ls" || *verb == "get")?;
    let done = carry_out(&mut front, verb, rest);
    let unmounted = front.unmount();
    done?;
    Ok(unmounted?)
}

fn carry_out(
    front: &mut Front<Simulation>,
    verb: &str,
    rest: &[&str],
) -> Result<(), Box<dyn Error>> {
    match (verb, rest) {
        ("ls", []) => {
            for entry in front.list()? {
                println!("{} {}", entry.bytes, entry.name);
            }
        }
        ("put", [name, path]) => {
            let mut file = File::open(path)?;
            front.put(name, file.metadata()?.len(), &mut file)?;
        }
        ("get", [name, path]) => {
            front.get(name, &mut File::create(path)?)?;
        }
        ("rm", [name]) => front.delete(name)?,
        _ => return Err("unknown verb or wrong arguments".into()),
    }
    Ok(())
}
