# SPDX-License-Identifier: Apache-2.0 OR MIT
# Written by rtl/crossings.py from rtl/crossings.toml.
# The crossings of one instance of prim_fifo_async: in Vivado `read_xdc -ref prim_fifo_async prim_fifo_async.xdc`, after the clocks.
# Not tried in Vivado.

# gray: how far the queue is written
set period [get_property -min PERIOD [get_clocks -of_objects [get_ports write_clk_i]]]
set_max_delay -datapath_only -from [get_cells -quiet {write_gray_q_reg*}] -to [get_cells -quiet {write_meta_q_reg*}] $period
set_bus_skew -from [get_cells -quiet {write_gray_q_reg*}] -to [get_cells -quiet {write_meta_q_reg*}] $period
# gray: how far the queue is read
set period [get_property -min PERIOD [get_clocks -of_objects [get_ports read_clk_i]]]
set_max_delay -datapath_only -from [get_cells -quiet {read_gray_q_reg*}] -to [get_cells -quiet {read_meta_q_reg*}] $period
set_bus_skew -from [get_cells -quiet {read_gray_q_reg*}] -to [get_cells -quiet {read_meta_q_reg*}] $period
# held: an entry, written before its pointer crosses, and not again before the reader's pointer has crossed back
set period [get_property -min PERIOD [get_clocks -of_objects [get_ports read_clk_i]]]
set_max_delay -datapath_only -from [get_cells -quiet {entries_q_reg*}] $period
