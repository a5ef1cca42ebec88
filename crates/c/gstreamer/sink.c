// SPDX-License-Identifier: Apache-2.0 OR MIT
// straightwaysink: a GStreamer element that records what it gets as a file of a volume, with libstraightway.
//
// A recorder belongs to one thread, and GStreamer starts, feeds and stops an element from several. So a thread of the element has
// the recorder: it is given each buffer, and ends the recording when the element stops, whether the stream has ended or not.

#include <gst/base/gstbasesink.h>
#include <gst/gst.h>
#include <straightway.h>
#include <string.h>

#define PACKAGE "straightway"

typedef struct {
	GstBaseSink parent;
	gchar *device, *name;
	gboolean drop;
	guint64 block_bytes;
	guint buffers;
	GThread *thread;
	GAsyncQueue *queue, *answers;
	gint has_failed;
	struct straightway_record_report report;
} Sink;

typedef GstBaseSinkClass SinkClass;

G_DEFINE_TYPE(Sink, sink, GST_TYPE_BASE_SINK)

enum { DEVICE = 1, NAME, DROP, BLOCK_SIZE, BUFFERS };

// What the element's thread is given instead of a buffer.
static gint the_end;

static GstStaticPadTemplate any = GST_STATIC_PAD_TEMPLATE("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS_ANY);

static void failed(Sink *sink)
{
	const char *hint = straightway_hint();

	g_atomic_int_set(&sink->has_failed, TRUE);
	GST_ELEMENT_ERROR(sink, RESOURCE, WRITE, ("%s", straightway_error()), ("%s", hint ? hint : ""));
}

static gboolean append(straightway_recorder recorder, GstBuffer *buffer)
{
	enum straightway_status status;
	GstMapInfo map;

	if (!gst_buffer_map(buffer, &map, GST_MAP_READ))
		return FALSE;
	status = straightway_recorder_append(recorder, map.data, map.size, 0, NULL);
	gst_buffer_unmap(buffer, &map);
	return status == STRAIGHTWAY_STATUS_OK;
}

// The element's thread.
static gpointer record(gpointer data)
{
	struct straightway_record_options options = STRAIGHTWAY_RECORD_OPTIONS_INIT;
	Sink *sink = data;
	straightway_recorder recorder = 0;
	gpointer next;

	options.block_bytes = sink->block_bytes;
	options.buffers = sink->buffers;
	options.on_full = sink->drop ? STRAIGHTWAY_ON_FULL_DROP : STRAIGHTWAY_ON_FULL_WAIT;
	if (straightway_recorder_open(sink->device, sink->name, NULL, &options, &recorder))
		failed(sink);
	// What is pushed says nothing: a failure is a flag.
	g_async_queue_push(sink->answers, &the_end);
	while ((next = g_async_queue_pop(sink->queue)) != &the_end) {
		if (!g_atomic_int_get(&sink->has_failed) && !append(recorder, next))
			failed(sink);
		g_async_queue_push(sink->answers, &the_end);
	}
	sink->report.size = sizeof(sink->report);
	if (recorder && straightway_recorder_close(recorder, &sink->report) && !g_atomic_int_get(&sink->has_failed))
		failed(sink);
	return NULL;
}

// Ends the recording, so that all of it is durable, and posts what became of it.
static void finish(Sink *sink)
{
	if (!sink->thread)
		return;
	g_async_queue_push(sink->queue, &the_end);
	g_thread_join(sink->thread);
	sink->thread = NULL;
	g_async_queue_unref(sink->queue);
	g_async_queue_unref(sink->answers);
	gst_element_post_message(GST_ELEMENT(sink), gst_message_new_element(GST_OBJECT(sink), gst_structure_new("straightway-recorded",
		"durable-bytes", G_TYPE_UINT64, sink->report.durable_bytes,
		"lost-messages", G_TYPE_UINT64, sink->report.lost_messages,
		"lost-bytes", G_TYPE_UINT64, sink->report.lost_bytes,
		"gaps", G_TYPE_UINT64, sink->report.gaps,
		"misses", G_TYPE_UINT64, sink->report.misses,
		"waiting-max-blocks", G_TYPE_UINT64, sink->report.waiting_max_blocks, NULL)));
}

static gboolean start(GstBaseSink *base)
{
	Sink *sink = (Sink *)base;

	if (!sink->device || !sink->name) {
		GST_ELEMENT_ERROR(sink, RESOURCE, SETTINGS, ("device and recording are required"), (NULL));
		return FALSE;
	}
	g_atomic_int_set(&sink->has_failed, FALSE);
	memset(&sink->report, 0, sizeof(sink->report));
	sink->queue = g_async_queue_new();
	sink->answers = g_async_queue_new();
	sink->thread = g_thread_new("straightway", record, sink);
	g_async_queue_pop(sink->answers);
	if (!g_atomic_int_get(&sink->has_failed))
		return TRUE;
	finish(sink);
	return FALSE;
}

static GstFlowReturn render(GstBaseSink *base, GstBuffer *buffer)
{
	Sink *sink = (Sink *)base;

	// After the end of the stream, or a failure.
	if (!sink->thread)
		return GST_FLOW_EOS;
	g_async_queue_push(sink->queue, buffer);
	// The recorder copies the buffer, and waits for the drive only where nothing may be dropped.
	g_async_queue_pop(sink->answers);
	return g_atomic_int_get(&sink->has_failed) ? GST_FLOW_ERROR : GST_FLOW_OK;
}

static gboolean stop(GstBaseSink *base)
{
	finish((Sink *)base);
	return TRUE;
}

// The end of the stream is not passed on before all of it is durable.
static gboolean event(GstBaseSink *base, GstEvent *event)
{
	Sink *sink = (Sink *)base;

	if (GST_EVENT_TYPE(event) == GST_EVENT_EOS) {
		finish(sink);
		if (g_atomic_int_get(&sink->has_failed)) {
			gst_event_unref(event);
			return FALSE;
		}
	}
	return GST_BASE_SINK_CLASS(sink_parent_class)->event(base, event);
}

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *spec)
{
	Sink *sink = (Sink *)object;

	switch (id) {
	case DEVICE:
		g_free(sink->device);
		sink->device = g_value_dup_string(value);
		break;
	case NAME:
		g_free(sink->name);
		sink->name = g_value_dup_string(value);
		break;
	case DROP:
		sink->drop = g_value_get_boolean(value);
		break;
	case BLOCK_SIZE:
		sink->block_bytes = g_value_get_uint64(value);
		break;
	case BUFFERS:
		sink->buffers = g_value_get_uint(value);
		break;
	default:
		G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
	}
}

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *spec)
{
	Sink *sink = (Sink *)object;

	switch (id) {
	case DEVICE:
		g_value_set_string(value, sink->device);
		break;
	case NAME:
		g_value_set_string(value, sink->name);
		break;
	case DROP:
		g_value_set_boolean(value, sink->drop);
		break;
	case BLOCK_SIZE:
		g_value_set_uint64(value, sink->block_bytes);
		break;
	case BUFFERS:
		g_value_set_uint(value, sink->buffers);
		break;
	default:
		G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
	}
}

static void finalize(GObject *object)
{
	Sink *sink = (Sink *)object;

	g_free(sink->device);
	g_free(sink->name);
	G_OBJECT_CLASS(sink_parent_class)->finalize(object);
}

static void sink_class_init(SinkClass *class)
{
	const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY;
	GObjectClass *object = G_OBJECT_CLASS(class);

	object->set_property = set_property;
	object->get_property = get_property;
	object->finalize = finalize;
	g_object_class_install_property(object, DEVICE, g_param_spec_string("device", "Device",
		"The device with the volume, as the command names it", NULL, flags));
	g_object_class_install_property(object, NAME, g_param_spec_string("recording", "Recording",
		"The recording's name in the volume", NULL, flags));
	g_object_class_install_property(object, DROP, g_param_spec_boolean("drop", "Drop",
		"Drop buffers that the drive has no time for, instead of ending", FALSE, flags));
	g_object_class_install_property(object, BLOCK_SIZE, g_param_spec_uint64("block-size", "Block size",
		"Bytes that the drive gets at once, 0 for 1 MiB", 0, 1 << 30, 0, flags));
	g_object_class_install_property(object, BUFFERS, g_param_spec_uint("buffers", "Buffers",
		"Blocks of memory, 0 for 16", 0, 4096, 0, flags));
	gst_element_class_set_static_metadata(GST_ELEMENT_CLASS(class), "Straightway recorder", "Sink",
		"Records a stream as a file of a Straightway volume", "The Straightway authors");
	gst_element_class_add_static_pad_template(GST_ELEMENT_CLASS(class), &any);
	class->start = start;
	class->render = render;
	class->event = event;
	class->stop = stop;
}

static void sink_init(Sink *sink)
{
	// Data is recorded when it arrives, not when it would be shown.
	gst_base_sink_set_sync(GST_BASE_SINK(sink), FALSE);
}

static gboolean init(GstPlugin *plugin)
{
	return gst_element_register(plugin, "straightwaysink", GST_RANK_NONE, sink_get_type());
}

GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, straightway, "Recordings on Straightway volumes", init, "0.1.0", "MIT/X11",
		  PACKAGE, PACKAGE)
