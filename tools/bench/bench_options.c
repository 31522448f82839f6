/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and checks pp_bench's command line, so that errors are reported before any rank
 * starts. */
#include "bench_options.h"

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/topo.h>
#include <unistd.h>

#define RANKS_DEFAULT        4
#define STEPS_DEFAULT        60
#define MICROBATCHES_DEFAULT 8
#define PROFILE_STEPS_MIN    3
#define DATA_DEFAULT         "/usr/share/common-licenses/GPL-3"

static const char help[] =
    "Usage: pp_bench [options]\n"
    "  or:  pp_bench schedules [options]\n"
    "\n"
    "Train a small model on the bytes of a file, its layers spread over ranks\n"
    "(pipeline parallelism), and report the cost. Started by tryst-run, torchrun or\n"
    "mpirun, pp_bench is one rank; else it starts its ranks on this machine itself.\n"
    "\n"
    "Options:\n"
    "  -n RANKS                 ranks to start here (4)\n"
    "      --dp N               replicas of each stage: RANKS / N stages, each on N\n"
    "                           ranks, which share the micro-batches of a step and sum\n"
    "                           their gradients layer by layer while backwards and the\n"
    "                           next step's forwards go on (1)\n"
    "      --no-overlap         with --dp, for comparison: sum gradients behind the "
    "last\n"
    "                           backward, and end all sums before the next step\n"
    "      --model MODEL        gpt, mlp, or sleep:F_MS,B_MS, with stages that only\n"
    "                           sleep, or sleep:F_MS,I_MS,W_MS (gpt)\n"
    "      --sleep-gradient SIZE\n"
    "                           with --dp, gradient of a layer that sleeps, such as 4M\n"
    "                           (0)\n"
    "      --sleep-activation SIZE\n"
    "                           what stages that sleep send to each other (4K)\n"
    "      --layers N           layers, at least one for each stage (8)\n"
    "      --hidden N           width of an activation (64)\n"
    "      --heads N            attention heads, a divisor of hidden (4)\n"
    "      --seq N              bytes in a window (64)\n"
    "      --schedule NAME      a schedule with its options, such as\n"
    "                           interleaved:v=2,group=4; pp_bench schedules lists them.\n"
    "                           Or a FILE.csv in a form of PyTorch's, which sets the\n"
    "                           ranks and micro-batches of one replica\n"
    "                           (" TRYST_SCHEDULE_DEFAULT ")\n"
    "      --microbatches N     micro-batches in a step, of all replicas (8)\n"
    "      --microbatch-size N  windows in a micro-batch (4)\n"
    "      --steps N            training steps (60)\n"
    "      --optimizer NAME     adam or sgd (adam)\n"
    "      --lr RATE            learning rate (adam 0.001, sgd 0.1)\n"
    "      --seed N             of weights and data (0)\n"
    "      --device PLACE       host, cuda, cuda:N, or reference: cuda's stages over\n"
    "                           plain C kernels on the host (host). The ranks of a host\n"
    "                           share its devices: consecutive stages get the best\n"
    "                           links (NVLink, PCIe switch, bridge, package), or one\n"
    "                           device if there are more ranks than devices; a line on\n"
    "                           stderr explains the choice\n"
    "      --topology FILE      links between the devices of each host, in a format of\n"
    "                           tryst-topo (detected)\n"
    "      --precision NAME     of a device: bf16, fp32 or tf32 (bf16)\n"
    "      --recompute          on a device, compute activations again in the backward\n"
    "      --device-memory SIZE\n"
    "                           limit of a rank's weights and activations there, such\n"
    "                           as 40G (all free)\n"
    "      --data FILE          text to learn (" DATA_DEFAULT ", else Tryst's LICENSE)\n"
    "      --transport NAME     auto, shm, ucx, ofi; self runs the ranks as threads of\n"
    "                           one process (TRYST_TRANSPORT, else auto)\n"
    "      --check              replay the run in one process and compare all bits\n"
    "      --trace FILE         write a trace for Perfetto (ui.perfetto.dev)\n"
    "      --timeline FILE.svg  draw the last step, or one in the middle where steps\n"
    "                           overlap (asynchronous schedules)\n"
    "      --report FILE.html   write a page: figures, loss, timeline, links\n"
    "      --profile FILE       with --dp, write a step of rank 0 as a graph for\n"
    "                           tryst-perf sched; %r in FILE is the rank: of all ranks\n"
    "      --save-weights FILE  write the weights as safetensors\n"
    "      --json FILE|-        write all figures as JSON\n"
    "  -h, --help               print this\n"
    "      --version            print the version, the commit and the modules\n"
    "\n"
    "Exit status: 0 done, 1 the run or the check failed, 2 the command line is wrong.\n";

const char *bench_name(void)
{
    const char *name = program_invocation_short_name;
    return strcmp(name, "tryst-bench") == 0 ? name : "pp_bench";
}

const char *bench_schedule_name(int i)
{
    const tryst_schedule *schedule = tryst_program_schedule(i);
    return schedule ? schedule->name : NULL;
}

static const char *command_name(int i)
{
    return i == 0 ? "schedules" : NULL;
}

TRYST_PRINTF(1, 2) static bool refuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", bench_name());
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return false;
}

/* ---- values ------------------------------------------------------------------------ */

static bool read_optimizer(const char *value, void *to)
{
    struct bench_options *options = to;
    bool is_sgd = strcmp(value, "sgd") == 0;
    options->optimizer.kind = is_sgd ? TRYST_OPTIMIZER_SGD : TRYST_OPTIMIZER_ADAM;
    return is_sgd || strcmp(value, "adam") == 0 ||
           refuse("--optimizer %s: must be adam or sgd", value);
}

static bool read_model(const char *value, void *to)
{
    struct bench_options *options = to;
    if (tryst_model_parse(value, &options->model) != TRYST_OK) {
        return refuse("--model %s: %s", value, tryst_last_error());
    }
    return true;
}

static bool read_device(const char *value, void *to)
{
    struct bench_options *options = to;
    struct bench_device *device = &options->device;
    bool cuda = strncmp(value, "cuda", 4) == 0 && (!value[4] || value[4] == ':');
    device->memory = cuda ? TRYST_MEMORY_CUDA : TRYST_MEMORY_HOST;
    device->reference = strcmp(value, "reference") == 0;
    device->ordinal_given = cuda && value[4];
    if (device->ordinal_given) {
        uint64_t ordinal = 0;
        bool known = tool_number_parse(value + 5, 0, 1023, &ordinal);
        device->ordinal = (int)ordinal;
        return known || refuse("--device cuda %s: must be a whole number from 0 to 1023",
                               value + 5);
    }
    return cuda || device->reference || strcmp(value, "host") == 0 ||
           refuse("--device %s: must be host, cuda, cuda:N or reference", value);
}

static bool read_precision(const char *value, void *to)
{
    struct bench_options *options = to;
    static const struct {
        const char *name;
        tryst_precision precision;
    } rows[] = {{"bf16", TRYST_PRECISION_BF16},
                {"fp32", TRYST_PRECISION_F32},
                {"tf32", TRYST_PRECISION_TF32}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(value, rows[i].name) == 0) {
            options->device.precision = rows[i].precision;
            return true;
        }
    }
    return refuse("--precision %s: must be bf16, fp32 or tf32", value);
}

#define AT(member) .offset = offsetof(struct bench_options, member)
static const struct tool_option rows[] = {
    {NULL, 'n', TOOL_COUNT, AT(ranks), 1, 4096},
    {"dp", 0, TOOL_COUNT, AT(dp), 1, 4096},
    {"no-overlap", 0, TOOL_FLAG, AT(no_overlap)},
    {"model", 0, TOOL_OTHER, .read = read_model, .values = "gpt mlp sleep:"},
    {"sleep-gradient", 0, TOOL_BYTES, AT(model.sleep_gradient_bytes), 1, UINT64_MAX},
    {"sleep-activation", 0, TOOL_BYTES, AT(model.sleep_activation_bytes), 1, UINT64_MAX},
    {"layers", 0, TOOL_COUNT, AT(model.layers), 1, 100000},
    {"hidden", 0, TOOL_COUNT, AT(model.hidden), 1, 65536},
    {"heads", 0, TOOL_COUNT, AT(model.heads), 1, 1024},
    {"seq", 0, TOOL_COUNT, AT(model.seq), 1, 65536},
    {"schedule", 0, TOOL_TEXT, AT(schedule), .value = bench_schedule_name},
    {"microbatches", 0, TOOL_COUNT, AT(microbatches), 1, 65536},
    {"microbatch-size", 0, TOOL_COUNT, AT(model.microbatch_size), 1, 65536},
    {"steps", 0, TOOL_COUNT, AT(steps), 1, 1000000000},
    {"optimizer", 0, TOOL_OTHER, .read = read_optimizer, .values = "adam sgd"},
    {"lr", 0, TOOL_RATE, AT(optimizer.lr)},
    {"seed", 0, TOOL_NUMBER, AT(model.seed), 0, UINT64_MAX},
    {"device", 0, TOOL_OTHER, .read = read_device, .values = "host cuda reference"},
    {"precision", 0, TOOL_OTHER, .read = read_precision, .values = "bf16 fp32 tf32"},
    {"recompute", 0, TOOL_FLAG, AT(device.recompute)},
    {"device-memory", 0, TOOL_BYTES, AT(device.memory_bytes_max), 1, UINT64_MAX},
    {"topology", 0, TOOL_TEXT, AT(device.topology)},
    {"data", 0, TOOL_TEXT, AT(data)},
    {"transport", 0, TOOL_TEXT, AT(transport), .values = TOOL_TRANSPORTS " self"},
    {"check", 0, TOOL_FLAG, AT(check)},
    {"trace", 0, TOOL_TEXT, AT(trace)},
    {"timeline", 0, TOOL_TEXT, AT(timeline)},
    {"report", 0, TOOL_TEXT, AT(report)},
    {"profile", 0, TOOL_TEXT, AT(profile)},
    {"save-weights", 0, TOOL_TEXT, AT(save_weights)},
    {"json", 0, TOOL_TEXT, AT(json)},
};
#undef AT
/* ---- options that depend on each other --------------------------------------------- */

/* True if `schedule` is the name of a generator, alone or with options. */
static bool is_generator(const char *schedule)
{
    size_t bytes = strcspn(schedule, ":");
    for (int i = 0; tryst_program_schedule(i); i++) {
        const char *name = tryst_program_schedule(i)->name;
        if (strlen(name) == bytes && strncmp(schedule, name, bytes) == 0) {
            return true;
        }
    }
    return false;
}

bool bench_computes(const struct bench_options *options)
{
    return options->model.kind != TRYST_MODEL_SLEEP;
}

bool bench_loops(const tryst_program *program)
{
    size_t body, epilogue;
    bool loops = false; /* a rank without actions may have no marks */
    for (int rank = 0; rank < tryst_program_ranks(program); rank++) {
        loops = tryst_program_loop(program, rank, &body, &epilogue) || loops;
    }
    return loops;
}

/* Return the most ranks that a stage of the program is on. */
static int replicas_most(const tryst_program *program)
{
    int most = 0;
    for (int stage = 0; stage < tryst_program_stages(program); stage++) {
        int count = tryst_program_replicas(program, stage, NULL, 0);
        most = count > most ? count : most;
    }
    return most;
}

static bool is_file(const char *schedule)
{
    size_t bytes = strlen(schedule);
    return strchr(schedule, '/') ||
           (bytes > 4 && strcmp(schedule + bytes - 4, ".csv") == 0);
}

static bool replicate(const struct bench_options *options, tryst_program **program_p)
{
    tryst_program *one = *program_p;
    if (options->dp == 1) {
        return true;
    }
    *program_p = NULL;
    tryst_status status = tryst_program_replicate(one, options->dp, program_p);
    tryst_program_close(one);
    return status == TRYST_OK || refuse("--dp: %s", tryst_last_error());
}

static bool load_schedule(struct bench_options *options)
{
    if (tryst_program_load_csv(options->schedule, &options->program) != TRYST_OK) {
        return refuse("--schedule: %s", tryst_last_error());
    }
    int rows_count = tryst_program_ranks(options->program);
    if (!replicate(options, &options->program)) {
        return false;
    }
    int ranks = tryst_program_ranks(options->program);
    int microbatches = tryst_program_microbatches(options->program);
    if (options->ranks > 0 && options->ranks != ranks) {
        return refuse("--schedule %s: its %d rows are ranks, but there are %d ranks%s",
                      options->schedule, rows_count, options->ranks,
                      options->dp > 1 ? " for all replicas (--dp)" : "");
    }
    if (options->microbatches > 0 && options->microbatches != microbatches) {
        return refuse("--schedule %s: it has %d micro-batches, not %d", options->schedule,
                      microbatches, options->microbatches);
    }
    options->ranks = ranks;
    options->microbatches = microbatches;
    return true;
}

/* Take "sync=N" out of the schedule's options, which are written to `rest`: the number of
 * steps that come first (PipeMare's technique 3, Yang et al. 2021). */
static bool take_sync(struct bench_options *options, char *rest, size_t capacity)
{
    const char *from = options->schedule;
    const char *found = strstr(from, "sync=");
    uint64_t steps = 0;
    if (snprintf(rest, capacity, "%s", from) >= (int)capacity) {
        return refuse("--schedule %s: too long", from);
    }
    if (!found || found == from || !strchr(":,", found[-1])) {
        return true;
    }
    char number[16];
    size_t bytes = strcspn(found + 5, ",");
    snprintf(number, sizeof number, "%.*s", (int)bytes, found + 5);
    if (bytes >= sizeof number || !tool_number_parse(number, 1, INT32_MAX, &steps)) {
        return refuse("--schedule %s: sync must be a whole number from 1", from);
    }
    const char *after = found + 5 + bytes; /* keep one of the two separators */
    snprintf(rest, capacity, "%.*s%s", (int)(found - from - (*after ? 0 : 1)), from,
             *after ? after + 1 : "");
    options->sync_steps = (int)steps;
    return true;
}

/* Generate the program of the first steps. */
static bool generate_first(struct bench_options *options)
{
    const tryst_schedule_params params = {.struct_size = sizeof params,
                                          .ranks_count = options->ranks / options->dp,
                                          .microbatches_count =
                                              options->microbatches / options->dp};
    if (options->sync_steps == 0) {
        return true;
    }
    if (options->sync_steps >= options->steps) {
        return refuse("--schedule: %d steps come first (sync), so --steps must be at "
                      "least %d",
                      options->sync_steps, options->sync_steps + 1);
    }
    if (tryst_program_stages(options->program) != params.ranks_count ||
        replicas_most(options->program) != options->dp) {
        return refuse("--schedule: sync is for schedules with one stage on each rank");
    }
    return tryst_program_generate(TRYST_SCHEDULE_DEFAULT, &params,
                                  &options->first_program) == TRYST_OK
               ? replicate(options, &options->first_program)
               : refuse("--schedule: %s", tryst_last_error());
}

static bool generate_schedule(struct bench_options *options)
{
    char schedule[256];
    int dp = options->dp;
    options->ranks = options->ranks > 0 ? options->ranks : RANKS_DEFAULT;
    options->microbatches =
        options->microbatches > 0 ? options->microbatches : MICROBATCHES_DEFAULT;
    if (options->ranks % dp != 0 || options->microbatches % dp != 0) {
        return refuse("--dp %d: must divide the %d ranks (-n) and the %d micro-batches "
                      "(--microbatches)",
                      dp, options->ranks, options->microbatches);
    }
    const tryst_schedule_params params = {.struct_size = sizeof params,
                                          .ranks_count = options->ranks / dp,
                                          .microbatches_count =
                                              options->microbatches / dp};
    if (!take_sync(options, schedule, sizeof schedule)) {
        return false;
    }
    if (tryst_program_generate(schedule, &params, &options->program) != TRYST_OK) {
        return refuse("--schedule: %s%s", tryst_last_error(),
                      is_generator(options->schedule) ? "" : ", or a FILE.csv");
    }
    options->microbatches = tryst_program_microbatches(options->program) * dp;
    return replicate(options, &options->program) && generate_first(options);
}

static bool make_program(struct bench_options *options)
{
    bool is_loaded = !is_generator(options->schedule) && is_file(options->schedule);
    if (!(is_loaded ? load_schedule(options) : generate_schedule(options))) {
        return false;
    }
    if (options->dp > 1 && bench_loops(options->program)) {
        return refuse("--dp %d: the schedule %s is a loop, and replicas run programs "
                      "that drain in each step; %s",
                      options->dp, options->schedule,
                      is_loaded ? "give a file without the marks BODY and EPILOGUE"
                                : "add the option updates=N to the schedule");
    }
    if (tryst_program_check(options->program, NULL, NULL) != TRYST_OK) {
        return refuse("--schedule %s: %s", options->schedule, tryst_last_error());
    }
    options->replicas = replicas_most(options->program);
    return true;
}

static bool check_model(struct bench_options *options)
{
    int stages = tryst_program_stages(options->program);
    if (options->model.sleep_activation_bytes > 0 &&
        options->model.kind != TRYST_MODEL_SLEEP) {
        return refuse("--sleep-activation: other models have activations; add --model "
                      "sleep:F_MS,B_MS");
    }
    if (tryst_model_resolve(&options->model, &options->model) != TRYST_OK) {
        return refuse("%s", tryst_last_error());
    }
    if (options->model.sleep_gradient_bytes > 0 &&
        options->model.kind != TRYST_MODEL_SLEEP) {
        return refuse("--sleep-gradient: other models have gradients; add --model "
                      "sleep:F_MS,B_MS");
    }
    for (int stage = 0; stage < stages; stage++) {
        tryst_layers layers;
        if (tryst_model_split(&options->model, stages, stage, &layers) != TRYST_OK) {
            return refuse("%s (-n, --layers)", tryst_last_error());
        }
    }
    return true;
}

static bool check_data(struct bench_options *options)
{
    tryst_data *data = NULL;
    if (options->model.kind == TRYST_MODEL_SLEEP) {
        options->data = NULL;
        return true;
    }
    if (!options->data) {
        options->data = access(DATA_DEFAULT, R_OK) == 0 ? DATA_DEFAULT : BENCH_LICENSE;
    }
    if (tryst_data_open(options->data, options->model.seq, options->model.seed, &data) !=
        TRYST_OK) {
        return refuse("--data: %s", tryst_last_error());
    }
    tryst_data_close(data);
    return true;
}

/* True if the file can be written, or `path` names none (NULL or "-"). Checked before the
 * training, so that the results are not lost after it. */
static bool check_output(const char *name, const char *path)
{
    char folder[4096];
    if (!path || strcmp(path, "-") == 0) {
        return true;
    }
    if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder) {
        return refuse("--%s: the path is too long", name);
    }
    bool exists = access(path, F_OK) == 0;
    if (access(exists ? path : dirname(folder), W_OK) != 0) {
        return refuse("--%s %s: cannot write: %s", name, path, strerror(errno));
    }
    return true;
}

static bool check_transport(const struct bench_options *options)
{
    tryst_config *config = NULL;
    if (tryst_config_open(&config) != TRYST_OK) {
        return refuse("%s", tryst_last_error());
    }
    bool fits = !options->transport ||
                tryst_config_set(config, "transport", options->transport) == TRYST_OK;
    tryst_config_close(config);
    return fits || refuse("--transport: %s", tryst_last_error());
}

static bool check_topology(const struct bench_device *device)
{
    tryst_topo *topo = NULL;
    if (!device->topology) {
        return true;
    }
    if (device->memory == TRYST_MEMORY_HOST || device->ordinal_given) {
        return refuse("--topology: places ranks on devices; add --device cuda");
    }
    if (tryst_topo_load(device->topology, &topo) != TRYST_OK) {
        return refuse("--topology: %s", tryst_last_error());
    }
    tryst_topo_close(topo);
    return true;
}

/* True if --device, --precision, --recompute and --topology fit each other and the
 * model. */
static bool check_device(const struct bench_options *options)
{
    const struct bench_device *device = &options->device;
    bool on_host = device->memory == TRYST_MEMORY_HOST && !device->reference;
    if (on_host && device->precision != TRYST_PRECISION_DEFAULT &&
        device->precision != TRYST_PRECISION_F32) {
        return refuse("--precision: the host's stages compute in fp32; add --device cuda "
                      "or --device reference");
    }
    if (on_host && device->recompute) {
        return refuse(
            "--recompute: the host's stages keep their activations; add --device "
            "cuda or --device reference");
    }
    if (device->memory == TRYST_MEMORY_HOST && device->memory_bytes_max) {
        return refuse("--device-memory: is a limit of a device; add --device cuda");
    }
    if (!on_host && options->model.kind == TRYST_MODEL_SLEEP) {
        return refuse("--device: stages that sleep need none; leave it out");
    }
    if (options->replicas > 1 && device->memory != TRYST_MEMORY_HOST) {
        return refuse(
            "--device: the program has %d copies of a stage (--dp, --schedule), "
            "and their gradients are summed in host memory; use --device host "
            "or reference",
            options->replicas);
    }
    return check_topology(device);
}

static bool check_profile(const struct bench_options *options)
{
    if (!options->profile) {
        return true;
    }
    if (options->replicas == 1) {
        return refuse("--profile: the operations of the graph are sums of gradients; add "
                      "--dp 2, or choose a schedule of two copies");
    }
    if (options->steps < PROFILE_STEPS_MIN) {
        return refuse("--profile: takes a step between two others; give --steps %d or "
                      "more",
                      PROFILE_STEPS_MIN);
    }
    return check_output("profile", options->profile);
}

static bool check_all(struct bench_options *options)
{
    return make_program(options) && check_model(options) && check_data(options) &&
           check_transport(options) && check_device(options) && check_profile(options) &&
           check_output("trace", options->trace) &&
           check_output("timeline", options->timeline) &&
           check_output("report", options->report) &&
           check_output("save-weights", options->save_weights) &&
           check_output("json", options->json);
}

enum tool_next bench_options_read(int argc, char **argv, int size,
                                  struct bench_options *options_p)
{
    struct bench_options options = {
        .model = {.struct_size = sizeof options.model, .kind = TRYST_MODEL_GPT},
        .optimizer = {.struct_size = sizeof options.optimizer,
                      .kind = TRYST_OPTIMIZER_ADAM},
        .dp = 1,
        .schedule = TRYST_SCHEDULE_DEFAULT,
        .steps = STEPS_DEFAULT};
    const struct tool tool = {.name = bench_name(),
                              .help = help,
                              .help_name = "pp_bench",
                              .rows = rows,
                              .rows_count = sizeof rows / sizeof *rows,
                              .command = command_name};
    enum tool_next next = tool_options_read(&tool, argc, argv, &options);
    if (next != TOOL_GO) {
        return next;
    }
    if (optind < argc) {
        refuse("%s: not an option; see %s --help", argv[optind], bench_name());
        return TOOL_REFUSED;
    }
    if (size > 0 && options.ranks > 0 && options.ranks != size) {
        refuse("-n %d, but a launcher started %d ranks", options.ranks, size);
        return TOOL_REFUSED;
    }
    options.ranks = size > 0 ? size : options.ranks;
    if (!check_all(&options)) {
        bench_options_close(&options);
        return TOOL_REFUSED;
    }
    *options_p = options;
    return TOOL_GO;
}

void bench_options_close(struct bench_options *options)
{
    tryst_program_close(options->program);
    tryst_program_close(options->first_program);
    options->program = options->first_program = NULL;
}
