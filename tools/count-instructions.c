/*
 * A plugin for QEMU's user emulator: prints how many instructions of the guest were executed.
 *
 * It declares what it uses of QEMU's plugin interface itself, because Debian packages no qemu-plugin.h:
 * version 1, which QEMU 7.2 has. `tools/test-arm` builds and loads it. All threads are counted.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef uint64_t plugin_id;
struct block;
enum flags { NO_REGISTERS = 0 };

void qemu_plugin_outs(const char *text);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct block *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct block *, void (*)(unsigned int, void *), enum flags, void *);
size_t qemu_plugin_tb_n_insns(const struct block *);

int qemu_plugin_version = 1;

static uint64_t executed;

static void on_execution(unsigned int cpu, void *instructions) {
    (void)cpu;
    /* Each thread of the guest is one of QEMU's. */
    __atomic_fetch_add(&executed, (uintptr_t)instructions, __ATOMIC_RELAXED);
}

static void on_translation(plugin_id id, struct block *block) {
    (void)id;
    void *instructions = (void *)(uintptr_t)qemu_plugin_tb_n_insns(block);
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_execution, NO_REGISTERS, instructions);
}

static void at_exit(plugin_id id, void *nothing) {
    (void)id;
    (void)nothing;
    char line[32];
    snprintf(line, sizeof line, "%" PRIu64 "\n", executed);
    qemu_plugin_outs(line);
}

int qemu_plugin_install(plugin_id id, const void *info, int count, char **arguments) {
    (void)info;
    (void)count;
    (void)arguments;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
    return 0;
}
