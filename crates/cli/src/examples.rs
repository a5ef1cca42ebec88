//! An example or two for each verb, for its help and its manual page. A test parses each.

/// What it does, and the command.
pub type Example = (&'static str, &'static str);

/// The examples of a verb; none of what is no verb.
pub fn of(verb: &str) -> &'static [Example] {
    let all = EXAMPLES.iter().find(|(name, _)| *name == verb);
    all.map_or(&[], |(_, examples)| examples)
}

/// The verbs that belong together under a heading: for the overview, and for SEE ALSO.
pub const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Drives",
        &["list", "doctor", "info", "bind", "release", "read", "write"],
    ),
    (
        "Measurements",
        &[
            "compare", "sustain", "sweep", "periodic", "trace", "explain", "profile", "speed",
            "workload", "import",
        ],
    ),
    (
        "Volumes",
        &[
            "format", "put", "get", "ls", "rm", "mv", "stat", "check", "record", "play",
        ],
    ),
    ("This command", &["completions", "man", "schema"]),
];

const EXAMPLES: [(&str, &[Example]); 30] = [
    (
        "list",
        &[(
            "Show each drive, its driver and its users",
            "straightway list",
        )],
    ),
    (
        "doctor",
        &[(
            "Show what is missing for a drive",
            "straightway doctor nvme1",
        )],
    ),
    (
        "info",
        &[
            (
                "Show identity, limits, health and errors",
                "straightway info nvme1",
            ),
            (
                "The same of a model controller, as JSON",
                "straightway info model:1G --json",
            ),
        ],
    ),
    (
        "bind",
        &[(
            "Take a drive from its kernel driver",
            "straightway bind nvme1",
        )],
    ),
    (
        "release",
        &[("Give it back", "straightway release 0000:01:00.0")],
    ),
    (
        "read",
        &[
            (
                "The SHA-256 of the first GiB, by the straight path",
                "straightway read nvme1n1 --length 1G --checksum --path vfio",
            ),
            (
                "Copy a part of a drive into a file",
                "straightway read nvme1n1 --offset 1M --length 4K --output part",
            ),
        ],
    ),
    (
        "write",
        &[(
            "Write an image to a drive, and flush",
            "straightway write nvme1n1 --destroy-data SERIAL --input disk.img --flush",
        )],
    ),
    (
        "compare",
        &[(
            "Every path that only reads, with a report",
            "straightway compare nvme1n1 --output out/compare",
        )],
    ),
    (
        "sustain",
        &[(
            "Does the drive deliver 200 MiB/s, each block within 5 ms?",
            "straightway sustain nvme1n1 --rate 200M --block 256K --deadline 5ms",
        )],
    ),
    (
        "sweep",
        &[(
            "Small blocks at three queue depths",
            "straightway sweep nvme1n1 --sizes 512,4K --depths 1,8,32 --output out/sweep",
        )],
    ),
    (
        "periodic",
        &[(
            "A task that reads 64 KiB every 10 ms, idle and under load",
            "straightway periodic nvme1n1 --period 10ms --block 64K --loads none,high",
        )],
    ),
    (
        "trace",
        &[(
            "Where the time of 300 requests goes",
            "straightway trace nvme1n1 --path block-direct --requests 300 --output out/trace",
        )],
    ),
    (
        "explain",
        &[
            (
                "What limits a path, confirmed by changing it",
                "straightway explain nvme1n1 --path io_uring",
            ),
            (
                "The same from a run that was saved",
                "straightway explain out/sweep.json",
            ),
        ],
    ),
    (
        "profile",
        &[(
            "Which functions take the processor's time",
            "straightway profile nvme1n1 --path block-direct --duration 3s",
        )],
    ),
    (
        "speed",
        &[
            (
                "Measure at the present speed",
                "straightway speed nvme1n1 --one --output slow",
            ),
            (
                "Join it with a run at another",
                "straightway speed slow/speed.json fast/speed.json",
            ),
        ],
    ),
    (
        "workload",
        &[
            (
                "A mail server in a folder",
                "straightway workload varmail /mnt/test",
            ),
            (
                "A database on a volume, for a minute",
                "straightway workload oltp disk.img --duration 1min",
            ),
        ],
    ),
    (
        "import",
        &[(
            "Results of fio as a report",
            "straightway import fio.json --output out",
        )],
    ),
    (
        "format",
        &[
            (
                "A volume in a file, with checksums",
                "straightway format disk.img --size 256M --checksums",
            ),
            (
                "A volume on a drive",
                "straightway format nvme1n1 --destroy-data SERIAL",
            ),
        ],
    ),
    (
        "put",
        &[
            (
                "Store a file under its own name",
                "straightway put disk.img README.md",
            ),
            (
                "Store what a program writes",
                "tar c src | straightway put disk.img - src.tar",
            ),
        ],
    ),
    (
        "get",
        &[("Print a file", "straightway get disk.img README.md -")],
    ),
    (
        "ls",
        &[("Names, and sizes for people", "straightway ls -lh disk.img")],
    ),
    ("rm", &[("Remove two files", "straightway rm disk.img a b")]),
    (
        "mv",
        &[("Rename a file", "straightway mv disk.img take1 take2")],
    ),
    (
        "stat",
        &[
            ("How full a volume is", "straightway stat disk.img"),
            ("Where a file lies", "straightway stat disk.img README.md"),
        ],
    ),
    (
        "check",
        &[
            (
                "Look for damage, in data too",
                "straightway check disk.img --read-data",
            ),
            (
                "Repair what can be proved",
                "straightway check disk.img --repair",
            ),
        ],
    ),
    (
        "record",
        &[
            (
                "Datagrams, each block durable soon after it came",
                "straightway record nvme1n1 take1 --from udp://0.0.0.0:7000 --deadline 20ms",
            ),
            (
                "A pattern at 20 MiB/s for 5 s",
                "straightway record disk.img test --from pattern --rate 20M --for 5s",
            ),
        ],
    ),
    (
        "play",
        &[
            (
                "Send a recording at its rate",
                "straightway play nvme1n1 take1 --rate 20M --to udp://10.0.0.2:7000",
            ),
            (
                "Compare a recorded pattern",
                "straightway play disk.img test --to pattern",
            ),
        ],
    ),
    (
        "completions",
        &[(
            "Completions for bash",
            "straightway completions bash > /etc/bash_completion.d/straightway",
        )],
    ),
    (
        "man",
        &[("Write all pages into a folder", "straightway man man1")],
    ),
    (
        "schema",
        &[(
            "The schema of what a verb prints",
            "straightway schema stat",
        )],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_has_examples_that_parse() {
        let command = crate::arguments::command();
        for verb in command.get_subcommands() {
            let verb = verb.get_name();
            assert!(!of(verb).is_empty(), "{verb}");
            let groups = GROUPS.iter().filter(|(_, group)| group.contains(&verb));
            assert_eq!(groups.count(), 1, "{verb}");
            for (what, line) in of(verb) {
                let (_, ours) = line.rsplit_once("straightway ").unwrap_or_default();
                let ours = ours.split(" > ").next().unwrap_or_default();
                let words = std::iter::once("straightway").chain(ours.split(' '));
                let parsed = command.clone().try_get_matches_from(words);
                let matches = parsed.unwrap_or_else(|error| panic!("{what}: {line}: {error}"));
                assert_eq!(matches.subcommand_name(), Some(verb), "{line}");
            }
        }
    }
}
