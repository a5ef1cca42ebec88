include $(sort $(wildcard $(BR2_EXTERNAL_STRAIGHTWAY_PATH)/package/*/*.mk))
