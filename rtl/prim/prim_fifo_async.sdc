# SPDX-License-Identifier: Apache-2.0 OR MIT
# Written by rtl/crossings.py from rtl/crossings.toml.
# The crossings of all instances of prim_fifo_async, for tools that read SDC and find cells by a pattern of their path. Set `period` to the shortest
# period of the clocks that meet, in ns, before reading it. Not tried in a vendor's tool.

# gray: how far the queue is written
set_max_delay $period -from [get_cells */write_gray_q*] -to [get_cells */write_meta_q*]
# gray: how far the queue is read
set_max_delay $period -from [get_cells */read_gray_q*] -to [get_cells */read_meta_q*]
# held: an entry, written before its pointer crosses, and not again before the reader's pointer has crossed back
set_max_delay $period -from [get_cells */entries_q*]
