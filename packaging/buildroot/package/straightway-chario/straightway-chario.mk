################################################################################
#
# straightway-chario
#
################################################################################

STRAIGHTWAY_CHARIO_VERSION = 0.1.0
STRAIGHTWAY_CHARIO_SITE = $(BR2_EXTERNAL_STRAIGHTWAY_PATH)/../../kernel/chario
STRAIGHTWAY_CHARIO_SITE_METHOD = local
STRAIGHTWAY_CHARIO_LICENSE = GPL-2.0

$(eval $(kernel-module))
$(eval $(generic-package))
