# SPDX-License-Identifier: Apache-2.0 OR MIT
# Written by rtl/crossings.py from rtl/crossings.toml.
# The crossings of one instance of sata_phy: in Vivado `read_xdc -ref sata_phy sata_phy.xdc`, after the clocks.
# Not tried in Vivado.

# level: the receiver has found the dwords' border
set_false_path -through [get_nets -quiet {line_locked*}] -to [get_cells -quiet {locked_q_reg*}]
# level: the line is squelched
set_false_path -through [get_nets -quiet {rx_idle_i*}] -to [get_cells -quiet {idle_q_reg*}]
