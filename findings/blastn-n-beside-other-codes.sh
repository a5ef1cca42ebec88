#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# blastn's bits and E-values depend on the letters of the whole query, also where nothing is aligned: 30 bases that are written as R, 150 bases
# behind an alignment, change its bits and its E-value; the same bases written as N do not.
# Package: ncbi-blast+ 2.12.0+ds-3+b1 (Debian 12).
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
apt-get download -qq ncbi-blast+=2.12.0+ds-3+b1 liblmdb0 libmbedcrypto7 libmbedtls14 libpcre3 libgomp1 >/dev/null
for package in *.deb; do dpkg -x "$package" tree; done
export LD_LIBRARY_PATH=$work/tree/usr/lib/ncbi-blast+:$work/tree/usr/lib/x86_64-linux-gnu PATH=$work/tree/usr/bin:$PATH
blastn -version | head -n 1

python3 - <<'PYTHON'
import random
random.seed(5)
letters = lambda count: "".join(random.choice("ACGT") for _ in range(count))
common, tail = letters(60), letters(240)
open("subject.fa", "w").write(f">s\n{letters(100)}{common}{letters(100)}\n")
with_code = lambda code: tail[:150] + code * 30 + tail[180:]
open("query.fa", "w").write("".join(f">{name}\n{common}{end}\n" for name, end in
    (("plain", tail), ("with_n", with_code("N")), ("with_r", with_code("R")))))
PYTHON
makeblastdb -in subject.fa -dbtype nucl -out database >/dev/null
blastn -task blastn -ungapped -dust no -db database -query query.fa -outfmt '6 qseqid length score bitscore evalue' | sort -k1,1 -k3,3nr | awk '!seen[$1]++' | tee rows
plain=$(awk '$1 == "plain" { print $2, $3, $4 }' rows)
with_n=$(awk '$1 == "with_n" { print $2, $3, $4 }' rows)
with_r=$(awk '$1 == "with_r" { print $2, $3, $4 }' rows)
[ "$plain" = "$with_n" ] && [ "${plain% *}" = "${with_r% *}" ] && [ "$plain" != "$with_r" ] ||
    { echo "changed: N and R no longer differ in what they do to bits"; exit 1; }
echo "as stated: the same alignment, with N elsewhere as before, with R elsewhere with other bits"
