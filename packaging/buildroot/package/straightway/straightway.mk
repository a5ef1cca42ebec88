################################################################################
#
# straightway
#
################################################################################

STRAIGHTWAY_VERSION = 0.1.0
STRAIGHTWAY_SITE = $(BR2_EXTERNAL_STRAIGHTWAY_PATH)/../..
STRAIGHTWAY_SITE_METHOD = local
STRAIGHTWAY_LICENSE = Apache-2.0 or MIT
STRAIGHTWAY_LICENSE_FILES = LICENSE-APACHE LICENSE-MIT
STRAIGHTWAY_INSTALL_STAGING = YES

STRAIGHTWAY_CARGO_BUILD_OPTS = -p straightway-cli -p straightway-preload -p straightway-c
STRAIGHTWAY_BUILT = target/$(RUSTC_TARGET_NAME)/$(if $(BR2_ENABLE_DEBUG),debug,release)

# cargo's own message names crates, not what to do.
define STRAIGHTWAY_HAS_CRATES
	@test -d $(@D)/vendor || { \
		echo "straightway: no vendor/ in $(STRAIGHTWAY_SITE); hint: use the archive of \`make source\`" >&2; exit 1; }
endef
STRAIGHTWAY_PRE_BUILD_HOOKS += STRAIGHTWAY_HAS_CRATES

# Not cargo install: there is more than the command. The manual pages and the completions would need a command that runs here.
define STRAIGHTWAY_INSTALL_TARGET_CMDS
	$(TARGET_MAKE_ENV) $(MAKE) -C $(@D) install PREFIX=/usr DESTDIR=$(TARGET_DIR) \
		COMMAND=$(STRAIGHTWAY_BUILT)/straightway WRITER=
endef

define STRAIGHTWAY_INSTALL_STAGING_CMDS
	$(TARGET_MAKE_ENV) $(MAKE) -C $(@D) install-c PREFIX=/usr DESTDIR=$(STAGING_DIR) LIBRARY=$(STRAIGHTWAY_BUILT)/
endef

$(eval $(cargo-package))
