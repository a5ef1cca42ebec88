# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Each value outside a parameter's range ends elaboration, in both readers; both ends of each range elaborate.

Starting a reader takes longer than an instance, so many values are instances of one design: each error must name its parameter and value.
"""

import collections
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import cores  # noqa: E402
import parameters  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from suites import deal  # noqa: E402

VERILATOR = ["verilator", "--lint-only", "-Wno-lint", "-Wno-PINMISSING", "--error-limit", "0", "--top-module", "values"]
SLANG = """
import json, sys
from pyosys import libyosys
libyosys.run_pass("read_slang --top values --error-limit 0 " + " ".join(json.loads(sys.argv[1])), libyosys.Design())
"""


def values(folder, instances):
    """A design of these instances, without connections, and the files that it needs."""
    text, files = "module values;\n", {}
    for index, (core, module, ranges) in enumerate(instances):
        text += f"  {module} #({', '.join(f'.{name}({value})' for name, value in ranges.items())}) u_{index} ();\n"
        files |= dict.fromkeys(cores.files(core))
    top = folder / "values.sv"
    top.write_text(text + "endmodule\n", "utf-8")
    return [*map(str, files), str(top)]


def verilator(files):
    return subprocess.run([*VERILATOR, *files], env=cores.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def slang(files):
    files = [file for file in files if file.endswith(".sv") and not file.endswith("block_checker.sv")]
    return subprocess.run([cores.BIN / "python", "-c", SLANG, json.dumps(files)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_the_ends_of_each_range_elaborate(tmp_path):
    for core in deal.taken(dict.fromkeys(parameters.TABLE, "core")):
        done = verilator(values(tmp_path, [case for case in parameters.legal() if case[0] == core]))
        assert done.returncode == 0, f"{core}\n{done.stdout}"


@pytest.mark.parametrize("reader", [verilator, slang])
def test_a_value_outside_its_range_is_an_error(reader, tmp_path):
    cases = list(parameters.illegal())
    done = reader(values(tmp_path, [(core, module, {name: value, **others}) for core, module, name, value, others in cases]))
    assert done.returncode != 0
    found = {match.groups() for match in re.finditer(r"(\w+)\.sv:\d+.*: (\w+) is (\d+): ", done.stdout)}
    missing = [f"{module} {name}={value}" for _, module, name, value, _ in cases if (module, name, str(value)) not in found]
    assert not missing, f"accepted: {', '.join(missing)}\n{done.stdout[-3000:]}"


def test_each_module_with_a_range_is_in_the_table():
    """A check that the table does not know would not be tested."""
    checked = collections.defaultdict(set)
    for file in sorted(cores.RTL.rglob("*.sv")):
        if not {"sim", "formal"} & set(file.parts):
            for name in re.findall(r'\$error\("(\w+) is %0d', file.read_text("utf-8")):
                checked[file.stem].add(name)
    assert dict(checked) == {module: set(ranges) for _, module, ranges in parameters.modules()}
