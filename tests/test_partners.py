# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The page of partners: a mark that names nobody, a partner without a test and a claim without a clause are told."""

from checks import partners
from checks.partners import Mark, Registry
from scripted import ROOT

PYTHON = '''"""A file."""

# partner: nvmet | target, program
# partner: fio | program
import os

# partner: fio | program
@pytest.mark.slow
def test_load():
    pass
'''
RUST = """
    // partner: tar | writer
    // Why it is so.
    #[test]
    fn an_archive_is_read() {}
"""


def test_marks_are_of_a_file_or_of_a_test():
    assert list(partners.marks_of("a.py", PYTHON)) == [
        Mark("a.py", "", ["nvmet"], ["target", "program"]), Mark("a.py", "", ["fio"], ["program"]), Mark("a.py", "test_load", ["fio"], ["program"])]
    assert list(partners.marks_of("b.rs", RUST)) == [Mark("b.rs", "an_archive_is_read", ["tar"], ["writer"])]


def test_what_does_not_fit_is_told():
    known = Registry([{"name": "fio"}, {"name": "tar"}], [{"name": "a drive", "files": ["no/file"], "beside": ["nobody"], "alone": [["it fails", " "]]}])
    found = [Mark("a.py", "test_load", ["fio", "nvmet"], ["program", "friend"])]
    wrong = list(partners.problems(found, known, ROOT))
    assert [text.split(": ", 1)[1] for text in wrong] == [
        "the mark of test_load names `nvmet`, which tests/partners.toml does not have",
        f"the mark of test_load has the role `friend`: one of {', '.join(partners.ROLES)}",
        "no test has a mark of `tar`",
        "the model `a drive`: no/file is not there",
        "the model `a drive` names the partner `nobody`, which is not there",
        "the model `a drive`: a claim without its clause: it fails"]


def test_a_version_that_is_not_here_stays_on_the_page():
    partner = {"name": "a program", "is": "nothing", "command": ["no-such-program"], "pattern": "(.+)"}
    assert partners.version(ROOT, partner, "1.2") == "1.2"
    row = partners.page([], Registry([partner]), {"a program": "1.2"})
    assert partners.on_page(row) == {"a program": "1.2"}
    assert partners.locked(ROOT, "pytest") and partners.locked(ROOT, "no-such-package") is None
