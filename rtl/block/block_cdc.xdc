# SPDX-License-Identifier: Apache-2.0 OR MIT
# Written by rtl/crossings.py from rtl/crossings.toml.
# The crossings of one instance of block_cdc: in Vivado `read_xdc -ref block_cdc block_cdc.xdc`, after the clocks.
# Not tried in Vivado.

# level: the host cancels, until the device has seen it
set_false_path -from [get_cells -quiet {cancel_q_reg*}] -to [get_cells -quiet {cancel_meta_q_reg*}]
# level: the device has seen it
set_false_path -from [get_cells -quiet {cancel_dev_q_reg*}] -to [get_cells -quiet {echo_meta_q_reg*}]
# level: the device is ready
set_false_path -through [get_nets -quiet {geometry_i*}] -to [get_cells -quiet {ready_meta_q_reg*}]
# held: the geometry, constant while the device is ready, which the host sees two clocks later (B14)
set_false_path -through [get_nets -quiet {geometry_i*}]
