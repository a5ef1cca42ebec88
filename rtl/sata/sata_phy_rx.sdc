# SPDX-License-Identifier: Apache-2.0 OR MIT
# Written by rtl/crossings.py from rtl/crossings.toml.
# The crossings of all instances of sata_phy_rx, for tools that read SDC and find cells by a pattern of their path. Set `period` to the shortest
# period of the clocks that meet, in ns, before reading it. Not tried in a vendor's tool.

# level: the line is squelched, in the line's clock
set_false_path -through [get_nets */idle_i*] -to [get_cells */idle_meta_q*]
