#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# blastn's tabular output (-outfmt 6) puts a blank in front of a bit score between 99.9 and 100: " 99". Below it prints one digit after
# the point (99.6), above it none (100), so a column may be compared or joined as text everywhere but there.
# Package: ncbi-blast+ 2.12.0+ds-3+b1 (Debian 12).
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
apt-get download -qq ncbi-blast+=2.12.0+ds-3+b1 liblmdb0 libmbedcrypto7 libmbedtls14 libpcre3 libgomp1 >/dev/null
for package in *.deb; do dpkg -x "$package" tree; done
export LD_LIBRARY_PATH=$work/tree/usr/lib/ncbi-blast+:$work/tree/usr/lib/x86_64-linux-gnu PATH=$work/tree/usr/bin:$PATH
blastn -version | head -n 1

python3 - <<'PYTHON'
import random
random.seed(3)
bases = "".join(random.choice("ACGT") for _ in range(400))
other = {"A": "C", "C": "A", "G": "T", "T": "G"}
changed = lambda length, at: bases[:at] + other[bases[at]] + bases[at + 1:length]
open("subject.fa", "w").write(f">s\n{bases}\n")
open("query.fa", "w").write("".join(f">q{length}\n{changed(length, length // 2)}\n" for length in (57, 58, 59)))
PYTHON
makeblastdb -in subject.fa -dbtype nucl -out database >/dev/null
blastn -task blastn -reward 2 -penalty -3 -gapopen 2 -gapextend 4 -db database -query query.fa -outfmt '6 qseqid score bitscore' | tee rows
[ "$(cut -f 3 rows)" = "$(printf '98.1\n 99\n101')" ] || { echo "changed: the bit scores are no longer 98.1, ' 99', 101"; exit 1; }
echo "as stated: the second bit score has a blank in front"
