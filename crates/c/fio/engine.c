// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * An I/O engine of fio over libstraightway: each job has a queue of its own to a device, or a file of a volume.
 *
 * A device's requests are asynchronous. One that is longer than the device takes at once is split, as the kernel does, and ends with
 * its last part. A volume's file is read and appended to by calls that wait.
 */
#include "fio.h"
#include "optgroup.h"

#include <straightway.h>

/* Taken by one poll. */
enum { COMPLETIONS = 64 };

extern const char fio_version_string[];

struct options {
	void *unused; /* fio takes the offset 0 for an option without a place. */
	char *path;
	char *wait;
	char *destroy_data;
	unsigned int namespace_id;
	char *volume_file;
};

/* An io_u in flight. */
struct request {
	uint64_t started_bytes;
	unsigned int parts; /* in flight */
	bool is_started;    /* all parts were submitted, or one failed */
};

struct engine {
	straightway_device device;
	straightway_volume volume;
	straightway_file file;
	uint64_t max_transfer_bytes;
	uint64_t appended_bytes;   /* the file's size with what was appended */
	bool is_synced;            /* all of that is durable, so that it can be read */
	struct io_u **waiting;     /* in order; the first may be submitted in part */
	unsigned int first, waiting_count;
	struct io_u **ended;
	unsigned int ended_count, given_count;
	void *memory;
};

static int report(struct thread_data *td, const char *doing, enum straightway_status status)
{
	const char *hint = straightway_hint();
	int error = EIO;

	switch (status) {
	case STRAIGHTWAY_STATUS_USAGE: error = EINVAL; break;
	case STRAIGHTWAY_STATUS_MISSING: error = ENODEV; break;
	case STRAIGHTWAY_STATUS_UNSUPPORTED: error = EOPNOTSUPP; break;
	case STRAIGHTWAY_STATUS_ROT: error = EILSEQ; break;
	case STRAIGHTWAY_STATUS_FULL: error = ENOSPC; break;
	case STRAIGHTWAY_STATUS_EXISTS: error = EEXIST; break;
	case STRAIGHTWAY_STATUS_NOT_FOUND: error = ENOENT; break;
	default: break;
	}
	log_err("straightway: %s: %s: %s%s%s\n", td->o.name, doing, straightway_error(), *hint ? "; hint: " : "", hint);
	return error;
}

static int refuse(struct thread_data *td, const char *why)
{
	log_err("straightway: %s: %s\n", td->o.name, why);
	td_verror(td, EINVAL, "straightway");
	return 1;
}

/* The device's name as the library takes it. */
static const char *name_of(struct thread_data *td)
{
	return td->files[0]->file_name;
}

static struct straightway_options options_of(struct thread_data *td, bool write)
{
	const struct options *given = td->eo;
	struct straightway_options options = STRAIGHTWAY_OPTIONS_INIT;

	options.write = write;
	options.namespace_id = given->namespace_id;
	options.destroy_data = write ? given->destroy_data : NULL;
	options.path = given->path;
	options.mode = given->wait;
	return options;
}

/* The size of a device: it is opened to read it, once for all jobs with the same name and options. */
static int device_size(struct thread_data *td, uint64_t *size_bytes)
{
	static char *known_name;
	static uint64_t known_bytes;
	struct straightway_options options = options_of(td, false);
	struct straightway_geometry geometry = { .size = sizeof(geometry) };
	straightway_device device;
	enum straightway_status status;

	if (known_name && !strcmp(known_name, name_of(td)) && !options.namespace_id) {
		*size_bytes = known_bytes;
		return 0;
	}
	status = straightway_open(name_of(td), &options, &device);
	if (status)
		return report(td, "opening", status);
	status = straightway_get_geometry(device, &geometry);
	if (!status)
		status = straightway_close(device);
	if (status)
		return report(td, "opening", status);
	*size_bytes = geometry.block_count * geometry.block_size_bytes;
	if (!options.namespace_id) {
		free(known_name);
		known_name = strdup(name_of(td));
		known_bytes = *size_bytes;
	}
	return 0;
}

static int file_size(struct thread_data *td, uint64_t *size_bytes)
{
	const struct options *given = td->eo;
	struct straightway_options options = options_of(td, false);
	struct straightway_entry entry = { .size = sizeof(entry) };
	straightway_volume volume;
	enum straightway_status status, closed;
	int error = 0;

	status = straightway_volume_open(name_of(td), &options, &volume);
	if (status)
		return report(td, "opening the volume", status);
	status = straightway_volume_find(volume, given->volume_file, &entry);
	if (status)
		error = report(td, "finding the file", status);
	closed = straightway_volume_close(volume);
	if (!error && closed)
		error = report(td, "closing the volume", closed);
	*size_bytes = entry.size_bytes;
	return error;
}

static int engine_setup(struct thread_data *td)
{
	const struct options *given = td->eo;
	struct fio_file *file = td->files[0];
	uint64_t size_bytes = 0;
	int error = 0;

	if (strcmp(fio_version_string, STRAIGHTWAY_BUILT_FOR)) {
		log_err("straightway: this engine was built for %s, and this is %s; hint: build it again (crates/c/fio/build)\n",
			STRAIGHTWAY_BUILT_FOR, fio_version_string);
		return 1;
	}
	if (td->o.nr_files != 1)
		return refuse(td, "a job has one device; write a colon in its name as \\:");
	if (td_trim(td))
		return refuse(td, "libstraightway has no trim");
	if (!given->volume_file)
		error = device_size(td, &size_bytes);
	else if (!td_write(td))
		error = file_size(td, &size_bytes);
	else if (td_random(td))
		return refuse(td, "a volume's file grows by appends: use rw=write");
	else if (!(size_bytes = td->o.size) || fio_option_is_set(&td->o, start_offset))
		return refuse(td, "a job that writes a volume's file needs size=, and begins at byte 0");
	if (error) {
		td_verror(td, error, "straightway");
		return 1;
	}
	file->real_file_size = size_bytes;
	file->filetype = FIO_TYPE_BLOCK;
	fio_file_set_size_known(file);
	return 0;
}

static int open_device(struct thread_data *td, struct engine *engine)
{
	struct straightway_options options = options_of(td, td_write(td));
	struct straightway_geometry geometry = { .size = sizeof(geometry) };
	const unsigned long long mask = 4095;
	enum straightway_status status;

	options.queue_depth = td->o.iodepth;
	/* As fio computes it for an engine that needs aligned memory. */
	options.buffer_bytes = (td_max_bs(td) * td->o.iodepth + 2 * mask + td->o.mem_align + td->o.hugepage_size) & ~mask;
	status = straightway_open(name_of(td), &options, &engine->device);
	if (!status)
		status = straightway_get_geometry(engine->device, &geometry);
	if (status)
		return report(td, "opening", status);
	engine->max_transfer_bytes = geometry.max_transfer_bytes;
	if (td->o.min_bs[DDIR_READ] % geometry.block_size_bytes || td->o.min_bs[DDIR_WRITE] % geometry.block_size_bytes) {
		log_err("straightway: %s: bs= must be a multiple of the device's block of %u bytes\n", td->o.name,
			geometry.block_size_bytes);
		return EINVAL;
	}
	return 0;
}

static int open_file(struct thread_data *td, struct engine *engine)
{
	const struct options *given = td->eo;
	struct straightway_options options = options_of(td, td_write(td));
	struct straightway_volume_status state = { .size = sizeof(state) };
	enum straightway_status status;

	options.destroy_data = NULL; /* A volume's other files keep theirs. */
	status = straightway_volume_open(name_of(td), &options, &engine->volume);
	if (status)
		return report(td, "opening the volume", status);
	engine->is_synced = true;
	/* Only for this job: its requests end in queue(), so their time begins there. */
	td->flags |= (unsigned long long) FIO_SYNCIO << TD_ENG_FLAG_SHIFT;
	if (!td_write(td)) {
		status = straightway_file_open(engine->volume, given->volume_file, 0, &engine->file);
	} else {
		status = straightway_volume_get_status(engine->volume, &state);
		if (!status)
			status = straightway_file_create(engine->volume, given->volume_file, td->o.size, state.checksums, 0,
							 &engine->file);
	}
	return status ? report(td, "opening the file", status) : 0;
}

static void engine_cleanup(struct thread_data *td)
{
	struct engine *engine = td->io_ops_data;
	enum straightway_status status = STRAIGHTWAY_STATUS_OK;

	if (!engine)
		return;
	if (engine->device)
		status = straightway_close(engine->device);
	else if (engine->volume)
		status = straightway_volume_close(engine->volume);
	if (status) {
		int error = report(td, "closing", status);

		td_verror(td, error, "straightway");
	}
	free(engine->waiting);
	free(engine->ended);
	free(engine);
	td->io_ops_data = NULL;
}

static int engine_init(struct thread_data *td)
{
	const struct options *given = td->eo;
	struct engine *engine = calloc(1, sizeof(*engine));
	int error = ENOMEM;

	td->io_ops_data = engine;
	if (engine) {
		engine->waiting = calloc(td->o.iodepth, sizeof(*engine->waiting));
		engine->ended = calloc(td->o.iodepth, sizeof(*engine->ended));
		if (engine->waiting && engine->ended)
			error = given->volume_file ? open_file(td, engine) : open_device(td, engine);
	}
	if (!error)
		return 0;
	td_verror(td, error, "straightway");
	engine_cleanup(td);
	return 1;
}

static int engine_iomem_alloc(struct thread_data *td, size_t bytes)
{
	struct engine *engine = td->io_ops_data;
	enum straightway_status status;

	if (engine->volume)
		return posix_memalign((void **) &td->orig_buffer, 4096, bytes);
	status = straightway_alloc(engine->device, bytes, &engine->memory);
	td->orig_buffer = engine->memory;
	return status ? report(td, "allocating buffers", status) : 0;
}

static void engine_iomem_free(struct thread_data *td)
{
	struct engine *engine = td->io_ops_data;

	if (engine && engine->memory)
		straightway_free(engine->device, engine->memory);
	else if (engine && engine->volume)
		free(td->orig_buffer);
	if (engine)
		engine->memory = NULL;
}

static int engine_io_u_init(struct thread_data *td, struct io_u *io_u)
{
	io_u->engine_data = calloc(1, sizeof(struct request));
	return io_u->engine_data ? 0 : ENOMEM;
}

static void engine_io_u_free(struct thread_data *td, struct io_u *io_u)
{
	free(io_u->engine_data);
	io_u->engine_data = NULL;
}

static void end_if_done(struct engine *engine, struct io_u *io_u)
{
	const struct request *request = io_u->engine_data;

	if (request->is_started && !request->parts)
		engine->ended[engine->ended_count++] = io_u;
}

static enum straightway_status submit_part(struct engine *engine, struct io_u *io_u)
{
	struct request *request = io_u->engine_data;
	uint64_t left = io_u->xfer_buflen - request->started_bytes;
	uint64_t bytes = left < engine->max_transfer_bytes ? left : engine->max_transfer_bytes;
	char *memory = (char *) io_u->xfer_buf + request->started_bytes;
	uint64_t offset = io_u->offset + request->started_bytes;
	uint64_t tag = (uintptr_t) io_u;
	enum straightway_status status;

	if (ddir_sync(io_u->ddir)) {
		bytes = left;
		status = straightway_submit_flush(engine->device, tag);
	} else if (io_u->ddir == DDIR_READ) {
		status = straightway_submit_read(engine->device, offset, memory, bytes, tag);
	} else {
		status = straightway_submit_write(engine->device, offset, memory, bytes, 0, tag);
	}
	if (status)
		return status;
	request->started_bytes += bytes;
	request->parts++;
	request->is_started = request->started_bytes == io_u->xfer_buflen;
	return STRAIGHTWAY_STATUS_OK;
}

/* Submits what waits, as far as the device takes it. */
static void start_waiting(struct thread_data *td, struct engine *engine)
{
	while (engine->waiting_count) {
		struct io_u *io_u = engine->waiting[engine->first];
		struct request *request = io_u->engine_data;
		enum straightway_status status = submit_part(engine, io_u);

		if (status == STRAIGHTWAY_STATUS_AGAIN)
			return;
		if (status) {
			io_u->error = report(td, io_ddir_name(io_u->ddir), status);
			request->is_started = true;
		}
		if (!request->is_started)
			continue;
		engine->first = (engine->first + 1) % td->o.iodepth;
		engine->waiting_count--;
		/* Parts that were submitted end it. */
		end_if_done(engine, io_u);
	}
}

static int call_file(struct thread_data *td, struct engine *engine, struct io_u *io_u)
{
	enum straightway_status status = STRAIGHTWAY_STATUS_OK;
	size_t count = io_u->xfer_buflen;

	if (io_u->ddir == DDIR_WRITE) {
		if (io_u->offset != engine->appended_bytes) {
			log_err("straightway: %s: a write at byte %llu of a volume's file, which grows at byte %llu\n", td->o.name,
				io_u->offset, (unsigned long long) engine->appended_bytes);
			return EINVAL;
		}
		status = straightway_file_append(engine->file, io_u->xfer_buf, count);
		engine->appended_bytes += count;
		engine->is_synced = false;
		return status ? report(td, "appending", status) : 0;
	}
	/* What is not durable cannot be read. */
	if (!engine->is_synced)
		status = straightway_file_sync(engine->file, NULL);
	if (status)
		return report(td, "syncing", status);
	engine->is_synced = true;
	if (io_u->ddir != DDIR_READ)
		return 0;
	status = straightway_file_read(engine->file, io_u->offset, io_u->xfer_buf, io_u->xfer_buflen, &count);
	if (status)
		return report(td, "reading", status);
	io_u->resid = io_u->xfer_buflen - count;
	return 0;
}

static enum fio_q_status engine_queue(struct thread_data *td, struct io_u *io_u)
{
	struct engine *engine = td->io_ops_data;
	struct request *request = io_u->engine_data;

	fio_ro_check(td, io_u);
	if (io_u->ddir != DDIR_READ && io_u->ddir != DDIR_WRITE && io_u->ddir != DDIR_SYNC && io_u->ddir != DDIR_DATASYNC) {
		log_err("straightway: %s: %s is not supported\n", td->o.name, io_ddir_name(io_u->ddir));
		io_u->error = EOPNOTSUPP;
		return FIO_Q_COMPLETED;
	}
	if (engine->volume) {
		io_u->error = call_file(td, engine, io_u);
		if (io_u->error)
			td_verror(td, io_u->error, "straightway");
		return FIO_Q_COMPLETED;
	}
	*request = (struct request) { .is_started = false };
	io_u->error = 0;
	io_u->resid = 0;
	engine->waiting[(engine->first + engine->waiting_count++) % td->o.iodepth] = io_u;
	start_waiting(td, engine);
	return FIO_Q_QUEUED;
}

static int engine_commit(struct thread_data *td)
{
	struct engine *engine = td->io_ops_data;

	if (engine->device)
		straightway_kick(engine->device);
	return 0;
}

static int take_completions(struct thread_data *td, struct engine *engine)
{
	struct straightway_completion completions[COMPLETIONS];
	size_t count;
	enum straightway_status status = straightway_poll(engine->device, completions, COMPLETIONS, &count);

	if (status)
		return -report(td, "polling", status);
	for (size_t at = 0; at < count; at++) {
		struct io_u *io_u = (struct io_u *) (uintptr_t) completions[at].tag;
		struct request *request = io_u->engine_data;

		request->parts--;
		if (completions[at].status && !io_u->error)
			io_u->error = report(td, io_ddir_name(io_u->ddir), completions[at].status);
		end_if_done(engine, io_u);
	}
	return 0;
}

static int engine_getevents(struct thread_data *td, unsigned int least, unsigned int most, const struct timespec *timeout)
{
	struct engine *engine = td->io_ops_data;
	const uint32_t longest_us = 100000;
	struct timespec begin;

	/* fio is done with those of the last call. */
	engine->ended_count -= engine->given_count;
	memmove(engine->ended, engine->ended + engine->given_count, engine->ended_count * sizeof(*engine->ended));
	engine->given_count = 0;
	if (engine->volume)
		return 0;
	fio_gettime(&begin, NULL);
	for (;;) {
		uint64_t wait_us = longest_us;
		int error = take_completions(td, engine);

		if (error)
			return error;
		start_waiting(td, engine);
		if (engine->ended_count >= least)
			break;
		if (timeout) {
			uint64_t passed_us = utime_since_now(&begin);
			uint64_t limit_us = timeout->tv_sec * 1000000ull + timeout->tv_nsec / 1000;

			if (passed_us >= limit_us)
				break;
			wait_us = limit_us - passed_us < wait_us ? limit_us - passed_us : wait_us;
		}
		straightway_wait(engine->device, wait_us);
	}
	engine->given_count = engine->ended_count < most ? engine->ended_count : most;
	return engine->given_count;
}

static struct io_u *engine_event(struct thread_data *td, int event)
{
	const struct engine *engine = td->io_ops_data;

	return engine->ended[event];
}

/* The device is open from init to cleanup; fio has no descriptor of it. */
static int no_file(struct thread_data *td, struct fio_file *file)
{
	return 0;
}

#define OPTION(word, kind, member, text)                                                                                     \
	{                                                                                                                    \
		.name = word, .lname = word, .type = kind, .off1 = offsetof(struct options, member), .help = text,           \
		.category = FIO_OPT_C_ENGINE, .group = FIO_OPT_G_INVALID                                                     \
	}

static struct fio_option options[] = {
	OPTION("device_path", FIO_OPT_STR_STORE, path, "A path to the device, as straightway read --path takes it"),
	OPTION("device_wait", FIO_OPT_STR_STORE, wait, "poll, interrupt or hybrid"),
	OPTION("destroy_data", FIO_OPT_STR_STORE, destroy_data, "The drive's serial number or the file's path, to write it"),
	OPTION("namespace_id", FIO_OPT_INT, namespace_id, "A namespace of a controller"),
	OPTION("volume_file", FIO_OPT_STR_STORE, volume_file, "A file of the volume on the device: reads, or appends to a new one"),
	{ .name = NULL },
};

struct ioengine_ops ioengine = {
	.name = "straightway",
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_RAWIO | FIO_NOEXTEND | FIO_NODISKUTIL | FIO_MEMALIGN | FIO_DISKLESSIO,
	.setup = engine_setup,
	.init = engine_init,
	.cleanup = engine_cleanup,
	.queue = engine_queue,
	.commit = engine_commit,
	.getevents = engine_getevents,
	.event = engine_event,
	.open_file = no_file,
	.close_file = no_file,
	.invalidate = no_file,
	.iomem_alloc = engine_iomem_alloc,
	.iomem_free = engine_iomem_free,
	.io_u_init = engine_io_u_init,
	.io_u_free = engine_io_u_free,
	.option_struct_size = sizeof(struct options),
	.options = options,
};
