# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The wrappers with plain ports: as written, for each reader; converted to plain Verilog, for Icarus, in which a bench runs on one."""

import subprocess
import sys
from pathlib import Path

import pytest
from cocotb_tools.runner import get_results, get_runner

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import cocotb_bench  # noqa: E402
import cores  # noqa: E402
import flat  # noqa: E402

HERE = Path(__file__).resolve().parent
BUILD = cores.BUILD / "flat"
# A value outside of a parameter's range for each wrapper; hwfs_axi's only parameter has none.
WRONG = {"hwfs": ("Files", 9), "sata_host": ("BlockSizeLog2", 8), "virtio_blk": ("QueueSize", 100), "smmu": ("Frames", 12),
         "aoe_initiator": ("Slots", 6), "aoe_target": ("Buffers", 3), "raid0": ("Disks", 9), "timer": ("Lines", 33),
         "blastn": ("EntriesLog2", 1)}


def test_the_wrappers_are_what_the_description_says():
    for path, text in flat.written().items():
        assert path.read_text("utf-8") == text, f"{path.name}: run rtl/flat.py"
    assert WRONG.keys() == flat.description().keys() - {"hwfs_axi"}


@pytest.mark.cells("wrapper")
@pytest.mark.parametrize("wrapper", flat.description())
def test_lint(wrapper):
    assert cores.lint(f"{wrapper}_flat", f"{wrapper}_flat", {}) == ""


def slang(wrapper, *words):
    """slang's verdict on the wrapper, and what it prints."""
    program = """if True:
        import sys
        from pyslang import driver
        reader = driver.Driver()
        reader.addStandardArgs()
        good = reader.parseCommandLine(" ".join(["slang", *sys.argv[1:]])) and reader.processOptions() and reader.parseAllSources()
        sys.exit(0 if good and reader.runFullCompilation() else 1)"""
    files = map(str, cores.sources(f"{wrapper}_flat"))
    done = subprocess.run([sys.executable, "-c", program, "--top", f"{wrapper}_flat", *words, *files], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.returncode == 0, done.stdout


# partner: slang | reader
@pytest.mark.cells("wrapper")
@pytest.mark.parametrize("wrapper", flat.description())
def test_slang_reads_it_and_refuses_a_wrong_parameter(wrapper):
    good, said = slang(wrapper)
    assert good, said
    if wrapper in WRONG:
        parameter, value = WRONG[wrapper]
        good, said = slang(wrapper, "-G", f"{parameter}={value}")
        assert not good and f"{parameter} is {value}" in said, said


def icarus(output, top, *files):
    done = subprocess.run(["iverilog", "-g2005", "-Wall", "-s", top, "-o", str(output), *map(str, files)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return [line for line in done.stdout.splitlines() if "error" in line.lower()], done.returncode


# partner: Icarus | reader
@pytest.mark.cells("wrapper")
@pytest.mark.parametrize("wrapper", flat.description())
def test_icarus_reads_the_plain_verilog(wrapper):
    BUILD.mkdir(parents=True, exist_ok=True)
    file = flat.convert(wrapper, BUILD / f"{wrapper}_flat.v")
    errors, status = icarus("/dev/null", f"{wrapper}_flat", file)
    assert (errors, status) == ([], 0)
    # Plain: no structure is left, and the ports have their names.
    text = file.read_text("utf-8")
    assert f"\nmodule {wrapper}_flat(" in text and "struct" not in text
    for port in flat.wrapped(wrapper)[0]:
        assert f"{port.direction} " in text and f" {port.name};" in text, port.name


SHIM = """`timescale 1ns / 1ps
module timer_sim (input clk_i, input rst_ni, input [3:0] lines, input trigger,
  input [11:0] awaddr, input [11:0] araddr, input awvalid, input wvalid, input bready, input arvalid, input rready, input [31:0] wdata,
  input [3:0] wstrb, output awready, output wready, output bvalid, output arready, output rvalid, output [31:0] rdata,
  output [1:0] bresp, output [1:0] rresp,
  output [47:0] m_awaddr, output [47:0] m_araddr, output [7:0] m_awlen, output [7:0] m_arlen, output [2:0] m_awsize, output [2:0] m_arsize,
  output m_awvalid, output m_wvalid, output m_wlast, output m_bready, output m_arvalid, output m_rready, output [31:0] m_wdata,
  output [3:0] m_wstrb, input m_awready, input m_wready, input m_bvalid, input m_arready, input m_rvalid, input m_rlast,
  input [1:0] m_bresp, input [1:0] m_rresp, input [31:0] m_rdata);
  timer_flat u (.aclk(clk_i), .aresetn(rst_ni), .lines(lines), .trigger(trigger),
    {s_axi}, {m_axi});
endmodule
"""
LITE = "awaddr araddr awvalid wvalid bready arvalid rready wdata wstrb awready wready bvalid arready rvalid rdata bresp rresp".split()
# Those of the bench's tests that need no program of Straightway.
TESTS = ["stamps_the_cycle_of_the_write_and_of_the_line", "what_does_not_fit_is_counted_and_replaces_nothing", "records_only_when_it_should",
         "streams_every_event_in_order_and_counts_what_memory_refuses"]
FULL = [*LITE, "awlen", "arlen", "awsize", "arsize", "wlast", "rlast"]


# partner: Icarus | reader
def test_a_bench_runs_on_plain_verilog_in_icarus(monkeypatch, tmp_path):
    """The bench of the profiling timer, whose registers and memory it plays, on the converted timer_flat."""
    BUILD.mkdir(parents=True, exist_ok=True)
    file = flat.convert("timer", BUILD / "timer_small.v", {"DepthLog2": 4, "Groups": 4, "Stream": 1})
    shim = BUILD / "timer_shim.v"
    shim.write_text(SHIM.replace("{s_axi}", ", ".join(f".s_axi_{name}({name})" for name in LITE))
                    .replace("{m_axi}", ", ".join(f".m_axi_{name}(m_{name})" for name in FULL)), "utf-8")
    errors, status = icarus(BUILD / "sim.vvp", "timer_sim", shim, file)
    assert (errors, status) == ([], 0)
    monkeypatch.setenv("STRAIGHTWAY_SEED", str(cocotb_bench.SEED))
    monkeypatch.setenv("TIMER_FOLDER", str(tmp_path))
    monkeypatch.syspath_prepend(str(HERE))
    log = BUILD / "icarus.log"
    try:
        ran, failed = get_results(get_runner("icarus").test(hdl_toplevel="timer_sim", hdl_toplevel_lang="verilog", test_module="bench_timer",
                                                            build_dir=BUILD, test_dir=BUILD, testcase=TESTS, log_file=log))
    except SystemExit:
        ran, failed = 0, 1
    assert (ran, failed) == (len(TESTS), 0), log.read_text("utf-8", errors="replace")[-4000:]


@pytest.mark.parametrize("target", ["lint", "sim", "synth"])
def test_fusesoc_finds_a_top_level(target, tmp_path):
    """What `fusesoc run --setup` writes for each tool names the wrapper as its top."""
    fusesoc = [str(cores.BIN / "fusesoc"), "--cores-root", str(cores.RTL), "run", "--setup", "--target", target, "straightway:rtl:timer_flat"]
    done = subprocess.run(fusesoc, cwd=tmp_path, env=cores.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    texts = [path.read_text("utf-8", errors="replace") for path in tmp_path.rglob("*") if path.suffix in {".eda", ".yml", ".tcl", ".vc", ""}
             and path.is_file()]
    assert any("timer_flat" in text and "timer_native.sv" in text for text in texts)
    assert target != "synth" or any("set_property top timer_flat" in text for text in texts)
