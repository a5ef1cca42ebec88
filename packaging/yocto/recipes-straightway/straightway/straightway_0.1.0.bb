SUMMARY = "Read, write and measure NVMe drives by the shortest path"
DESCRIPTION = "The command and the C library: volumes, recordings at a fixed rate, and measurements on every path to a drive."
LICENSE = "Apache-2.0 | MIT"
LIC_FILES_CHKSUM = "\
    file://LICENSE-APACHE;md5=3b83ef96387f14655fc854ddc3c6bd57 \
    file://LICENSE-MIT;md5=5b07818ced0a25ec412eae1e07850744 \
"

SRC_URI = ""

inherit externalsrc cargo systemd

EXTERNALSRC = "${STRAIGHTWAY_SOURCES}"
CARGO_VENDORING_DIRECTORY = "${S}/vendor"
CARGO_BUILD_FLAGS:append = " -p straightway-cli -p straightway-preload -p straightway-c"

# The manual pages and the completions would need a command that runs here.
do_install() {
    oe_runmake -C ${S} install PREFIX=${prefix} DESTDIR=${D} LIBDIR=${libdir} UNITS=${systemd_system_unitdir} \
        COMMAND=${B}/target/${CARGO_TARGET_SUBDIR}/straightway WRITER=
}

# straightway-record@NAME records what /etc/straightway/NAME.conf says; which names there are is for the image.
SYSTEMD_SERVICE:${PN} = "straightway-record@.service"
SYSTEMD_AUTO_ENABLE = "disable"

# The library for `straightway map`.
FILES:${PN} += "${prefix}/lib/straightway"
