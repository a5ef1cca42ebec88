# SPDX-License-Identifier: Apache-2.0 OR MIT
# Written by rtl/crossings.py from rtl/crossings.toml.
# The crossings of all instances of sata_phy, for tools that read SDC and find cells by a pattern of their path. Set `period` to the shortest
# period of the clocks that meet, in ns, before reading it. Not tried in a vendor's tool.

# level: the receiver has found the dwords' border
set_false_path -through [get_nets */line_locked*] -to [get_cells */locked_q*]
# level: the line is squelched
set_false_path -through [get_nets */rx_idle_i*] -to [get_cells */idle_q*]
