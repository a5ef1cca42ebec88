# SPDX-License-Identifier: Apache-2.0 OR MIT
# Written by rtl/crossings.py from rtl/crossings.toml.
# The crossings of all instances of block_cdc, for tools that read SDC and find cells by a pattern of their path. Set `period` to the shortest
# period of the clocks that meet, in ns, before reading it. Not tried in a vendor's tool.

# level: the host cancels, until the device has seen it
set_false_path -from [get_cells */cancel_q*] -to [get_cells */cancel_meta_q*]
# level: the device has seen it
set_false_path -from [get_cells */cancel_dev_q*] -to [get_cells */echo_meta_q*]
# level: the device is ready
set_false_path -through [get_nets */geometry_i*] -to [get_cells */ready_meta_q*]
# held: the geometry, constant while the device is ready, which the host sees two clocks later (B14)
set_false_path -through [get_nets */geometry_i*]
