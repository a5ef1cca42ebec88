#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# nbdcopy --request-size sends requests of that size also to a server that has announced a smaller maximum (NBD_INFO_BLOCK_SIZE), which
# nbdinfo shows, and ends with the server's "Invalid argument". With its default size the same copy succeeds.
# Packages: nbdkit 1.32.5-1, libnbd-bin 1.14.2-1, libnbd0 1.14.2-1 (Debian 12).
set -euo pipefail
work=$(mktemp -d); trap 'kill $(cat "$work"/pid 2>/dev/null) 2>/dev/null || true; rm -rf "$work"' EXIT; cd "$work"
apt-get download -qq nbdkit=1.32.5-1 libnbd-bin=1.14.2-1 libnbd0=1.14.2-1 >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" tree; done
library=$work/tree/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$library PATH=$work/tree/usr/bin:$work/tree/usr/sbin:$PATH
nbdinfo --version
nbdkit --version

dd if=/dev/urandom of=image bs=1M count=8 status=none
nbdkit --unix "$work/socket" --pidfile "$work/pid" --filter="$library/nbdkit/filters/nbdkit-blocksize-policy-filter.so" \
    "$library/nbdkit/plugins/nbdkit-file-plugin.so" image blocksize-minimum=512 blocksize-preferred=4096 blocksize-maximum=262144 blocksize-error-policy=error
uri="nbd+unix:///?socket=$work/socket"
nbdinfo "$uri" | grep block_size_maximum
nbdcopy "$uri" whole && cmp image whole && echo "default size: copied"
if nbdcopy --request-size=4194304 "$uri" large 2>message; then echo "changed: it keeps to the maximum"; exit 1; fi
sed "s,$work,.,g" message | head -n 2
grep -qi 'invalid argument' message || { echo "changed: another message"; exit 1; }
echo "as stated: it sends more than the announced maximum"
