# SPDX-License-Identifier: Apache-2.0 OR MIT
# Written by rtl/crossings.py from rtl/crossings.toml.
# The crossings of one instance of sata_phy_rx: in Vivado `read_xdc -ref sata_phy_rx sata_phy_rx.xdc`, after the clocks.
# Not tried in Vivado.

# level: the line is squelched, in the line's clock
set_false_path -through [get_nets -quiet {idle_i*}] -to [get_cells -quiet {idle_meta_q_reg*}]
