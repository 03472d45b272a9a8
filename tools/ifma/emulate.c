// AVX-512 IFMA on a processor that has AVX-512F and DQ alone, for programs as they were compiled to be shipped.
//
//     gcc -O2 -shared -fPIC -o emulate.so emulate.c && LD_PRELOAD=$PWD/emulate.so PROGRAM
//
// Such a processor raises "invalid opcode" on VPMADD52LUQ and VPMADD52HUQ, and of all that the IFMA
// backends use on these alone. The handler overwrites the instruction with a jump to a stub that computes
// what Intel's manual defines (volume 2, VPMADD52LUQ and VPMADD52HUQ) by other instructions:
//
//     low:   to += a * b mod 2^52                                  (VPMULLQ)
//     high:  to += ah bh + ((al bh + ah bl + (al bl >> 26)) >> 26)    (halves of 26 bits, VPMULUDQ)
//
// Everything else in the program stays as it is. CPUID faults (arch_prctl ARCH_SET_CPUID) and is answered with
// IFMA's bit set, so that the program's own detection finds it.
//
// With IFMA_EMULATION=interpret no stub is made: every instruction is computed in the handler with 128-bit
// integers, some hundred times slower. Two ways that share no arithmetic.
//
// At the end of a process one line on standard error says how many instructions were replaced and how many
// computed here: a run with none of either proves nothing. Linux on x86-64 with gcc; exit code 125 where it
// cannot work.

#define _GNU_SOURCE
#include <cpuid.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012
#define IFMA_BIT (1u << 21)  // CPUID 7.0 EBX
#define AVX512F_BIT (1u << 16)
#define AVX512DQ_BIT (1u << 17)
#define LOW52 ((1ull << 52) - 1)

// Parts of the XSAVE area in its standard form, as a signal's frame has it (Intel, volume 1, 13.4).
#define XMM 160
#define XSTATE_BV 512
enum { SSE = 1, AVX = 2, OPMASK = 5, ZMM_HI256 = 6, HI16_ZMM = 7 };
static uint32_t offset_of[8];

static atomic_ullong computed, replaced;
static int interpret;

static void fail(const char *why) {
    fprintf(stderr, "ifma emulation: %s\n", why);
    _exit(125);
}

// Where 16 bytes, number `quarter`, of vector register `number` lie, and of which component they are.
static uint8_t *quarter_at(uint8_t *area, int number, int quarter, int *component) {
    if (number >= 16) {
        *component = HI16_ZMM;
        return area + offset_of[HI16_ZMM] + 64 * (number - 16) + 16 * quarter;
    }
    if (quarter == 0) {
        *component = SSE;
        return area + XMM + 16 * number;
    }
    *component = quarter == 1 ? AVX : ZMM_HI256;
    if (quarter == 1) return area + offset_of[AVX] + 16 * number;
    return area + offset_of[ZMM_HI256] + 32 * number + 16 * (quarter - 2);
}

// A component whose bit in XSTATE_BV is clear counts as zeros, whatever the area holds.
static void read_register(uint8_t *area, int number, uint64_t words[8]) {
    uint64_t present;
    memcpy(&present, area + XSTATE_BV, 8);
    for (int quarter = 0; quarter < 4; quarter++) {
        int component;
        uint8_t *from = quarter_at(area, number, quarter, &component);
        if (present >> component & 1) memcpy(words + 2 * quarter, from, 16);
        else memset(words + 2 * quarter, 0, 16);
    }
}

static void write_register(uint8_t *area, int number, const uint64_t words[8]) {
    static const int size_of_part[8] = {[SSE] = 256, [AVX] = 256, [ZMM_HI256] = 512, [HI16_ZMM] = 1024};
    uint64_t present;
    memcpy(&present, area + XSTATE_BV, 8);
    for (int quarter = 0; quarter < 4; quarter++) {
        int component;
        uint8_t *to = quarter_at(area, number, quarter, &component);
        if (!(present >> component & 1)) {
            uint8_t *start = area + (component == SSE ? XMM : offset_of[component]);
            memset(start, 0, size_of_part[component]);
            present |= 1ull << component;
        }
        memcpy(to, words + 2 * quarter, 16);
    }
    memcpy(area + XSTATE_BV, &present, 8);
}

static uint64_t read_mask(uint8_t *area, int number) {
    uint64_t present, mask = 0;
    memcpy(&present, area + XSTATE_BV, 8);
    if (present >> OPMASK & 1) memcpy(&mask, area + offset_of[OPMASK] + 8 * number, 8);
    return mask;
}

static int64_t general(const greg_t *registers, int number) {
    static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return registers[order[number]];
}

// One of the two instructions. `base` or `index` is -1 where there is none; then, and relative to RIP, the
// displacement is all, and relative to RIP it has become an address.
struct madd52 {
    int size, high, length, mask, zeroing, broadcast;
    int to, first, second;  // vector registers; `second` is -1 for memory
    int base, index, scale, is_absolute;
    int64_t displacement;
};

// The instruction at `code`, in EVEX's encoding (Intel, volume 2, 2.7); 0 if it is another one.
static int decode(const uint8_t *code, struct madd52 *in) {
    // Map 0F38, W1, prefix 66, opcodes B4 (low) and B5 (high).
    if (code[0] != 0x62 || (code[1] & 0x0f) != 0x02 || (code[2] & 0x87) != 0x85) return 0;
    if (code[4] != 0xb4 && code[4] != 0xb5) return 0;
    int not_r = code[1] >> 7 & 1, not_x = code[1] >> 6 & 1, not_b = code[1] >> 5 & 1, not_r2 = code[1] >> 4 & 1;
    int mod = code[5] >> 6, rm = code[5] & 7;
    *in = (struct madd52){.size = 6, .high = code[4] == 0xb5, .second = -1, .base = -1, .index = -1};
    in->zeroing = code[3] >> 7 & 1, in->length = code[3] >> 5 & 3, in->broadcast = code[3] >> 4 & 1;
    in->mask = code[3] & 7;
    in->to = (code[5] >> 3 & 7) | !not_r << 3 | !not_r2 << 4;
    in->first = (~code[2] >> 3 & 15) | !(code[3] >> 3 & 1) << 4;
    if (in->length == 3) return 0;
    if (mod == 3) {
        in->second = rm | !not_b << 3 | !not_x << 4;
        return !in->broadcast;
    }
    int only_displacement = 0;
    if (rm == 4) {
        int sib = code[in->size++], index = (sib >> 3 & 7) | !not_x << 3;
        if (index != 4) in->index = index;
        in->scale = sib >> 6;
        only_displacement = (sib & 7) == 5 && mod == 0;
        if (!only_displacement) in->base = (sib & 7) | !not_b << 3;
    } else if (rm == 5 && mod == 0) {
        only_displacement = in->is_absolute = 1;
    } else {
        in->base = rm | !not_b << 3;
    }
    if (mod == 1) {
        in->displacement = (int8_t)code[in->size++] * (in->broadcast ? 8 : 16 << in->length);
    } else if (mod == 2 || only_displacement) {
        int32_t displacement;
        memcpy(&displacement, code + in->size, 4);
        in->displacement = displacement;
        in->size += 4;
    }
    // Relative to the instruction behind this one.
    if (in->is_absolute) in->displacement += (int64_t)(code + in->size);
    return 1;
}

// Computes `in` in the registers that a signal saved.
static void compute(const struct madd52 *in, const greg_t *registers, uint8_t *area) {
    int lanes = 2 << in->length;
    uint64_t a[8], b[8], sum[8];
    if (in->second >= 0) {
        read_register(area, in->second, b);
    } else {
        int64_t address = in->displacement;
        if (in->base >= 0) address += general(registers, in->base);
        if (in->index >= 0) address += general(registers, in->index) << in->scale;
        for (int lane = 0; lane < lanes; lane++) {
            memcpy(b + lane, (const void *)(address + (in->broadcast ? 0 : 8 * lane)), 8);
        }
    }
    read_register(area, in->first, a);
    read_register(area, in->to, sum);
    uint64_t mask = in->mask ? read_mask(area, in->mask) : ~0ull;
    for (int lane = 0; lane < lanes; lane++) {
        if (mask >> lane & 1) {
            unsigned __int128 product = (unsigned __int128)(a[lane] & LOW52) * (b[lane] & LOW52);
            sum[lane] += in->high ? (uint64_t)(product >> 52) & LOW52 : (uint64_t)product & LOW52;
        } else if (in->zeroing) {
            sum[lane] = 0;
        }
    }
    for (int lane = lanes; lane < 8; lane++) sum[lane] = 0;
    write_register(area, in->to, sum);
}

// Stubs, in a region that a jump of 32 bits reaches from the instructions they replace. It begins with the
// masks of 26 and of 52 bits.

#define STUBS (32 << 20)
#define STUB_BYTES 1024
static uint8_t *stubs, *next_stub;

static int reaches(const uint8_t *from, const uint8_t *to) {
    int64_t distance = to - from;
    return distance > -(1ll << 31) + STUBS && distance < (1ll << 31) - STUBS;
}

static void map_stubs(const uint8_t *code) {
    const uint64_t step = 64 << 20;
    for (uint64_t distance = step; distance < 1ull << 31; distance += step) {
        for (int above = 0; above < 2; above++) {
            uint64_t at = ((uint64_t)code & ~(step - 1)) + (above ? distance : -distance);
            void *got = mmap((void *)at, STUBS, PROT_READ | PROT_WRITE | PROT_EXEC,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            if (got == MAP_FAILED) continue;
            stubs = got;
            for (int lane = 0; lane < 8; lane++) {
                ((uint64_t *)stubs)[lane] = (1 << 26) - 1;
                ((uint64_t *)stubs)[8 + lane] = LOW52;
            }
            next_stub = stubs + 128;
            return;
        }
    }
    fail("no room for stubs near the code");
}

static uint8_t *emit(uint8_t *out, const void *bytes, int count) {
    memcpy(out, bytes, count);
    return out + count;
}

static uint8_t *emit_word(uint8_t *out, int64_t word) {
    int32_t narrow = word;
    return emit(out, &narrow, 4);
}

// EVEX's prefix and opcode, W1. `rm` is a vector register, or stands for memory with the fourth bit of the
// base as its fourth and that of the index as its fifth.
static uint8_t *evex(uint8_t *out, int map, int prefix, int opcode, int length, int reg, int vvvv, int rm) {
    const uint8_t bytes[5] = {
        0x62,
        !(reg & 8) << 7 | !(rm & 16) << 6 | !(rm & 8) << 5 | !(reg & 16) << 4 | map,
        0x80 | (~vvvv & 15) << 3 | 4 | prefix,
        length << 5 | !(vvvv & 16) << 3,
        opcode,
    };
    return emit(out, bytes, 5);
}

// OP to, first, second
static uint8_t *three(uint8_t *out, int map, int opcode, int length, int to, int first, int second) {
    out = evex(out, map, 1, opcode, length, to, first, second);
    *out++ = 0xc0 | (to & 7) << 3 | (second & 7);
    return out;
}
#define AND 1, 0xdb
#define ADD 1, 0xd4
#define MULUDQ 1, 0xf4
#define MULLQ 2, 0x40

static uint8_t *shift_right(uint8_t *out, int length, int to, int from, int count) {
    out = evex(out, 1, 1, 0x73, length, 2, to, from);
    *out++ = 0xc0 | 2 << 3 | (from & 7);
    *out++ = count;
    return out;
}

// VMOVDQU64 between a register and [rsp + 64 slot].
enum { LOAD = 0x6f, STORE = 0x7f };
static uint8_t *move(uint8_t *out, int opcode, int length, int reg, int slot) {
    out = evex(out, 1, 2, opcode, length, reg, 0, 4);
    *out++ = 0x84 | (reg & 7) << 3;
    *out++ = 0x24;
    return emit_word(out, 64 * slot);
}

// VMOVDQU64 or VPBROADCASTQ from memory.
static uint8_t *load(uint8_t *out, int broadcast, int length, int reg, int rm) {
    return broadcast ? evex(out, 2, 1, 0x59, length, reg, 0, rm) : evex(out, 1, 2, LOAD, length, reg, 0, rm);
}

static uint8_t *load_absolute(uint8_t *out, int broadcast, int length, int reg, int64_t address) {
    out = load(out, broadcast, length, reg, 5);
    *out++ = 0x05 | (reg & 7) << 3;
    return emit_word(out, address - (int64_t)(out + 4));
}

#define FRAME 1024

// The memory operand of `in`, with RSP lowered by FRAME.
static uint8_t *load_operand(uint8_t *out, const struct madd52 *in, int reg) {
    if (in->is_absolute) return load_absolute(out, in->broadcast, in->length, reg, in->displacement);
    int64_t displacement = in->displacement + (in->base == 4 ? FRAME : 0);
    int index = in->index < 0 ? 4 : in->index;
    out = load(out, in->broadcast, in->length, reg, (in->base & 8) | (index & 8) << 1);
    *out++ = 0x84 | (reg & 7) << 3;
    *out++ = in->scale << 6 | (index & 7) << 3 | (in->base & 7);
    return emit_word(out, displacement);
}

// A stub that does what `in` does and jumps behind it. It leaves flags, masks and all other registers alone,
// and the 128 bytes below RSP, which a function may use.
static uint8_t *make_stub(const struct madd52 *in, const uint8_t *code) {
    static const uint8_t lower[] = {0x48, 0x8d, 0xa4, 0x24, 0x00, 0xfc, 0xff, 0xff};   // lea rsp, [rsp - 1024]
    static const uint8_t raise[] = {0x48, 0x8d, 0xa4, 0x24, 0x00, 0x04, 0x00, 0x00};   // lea rsp, [rsp + 1024]
    enum { A = 0, B = 1, C = 2, D = 3, MASK = 4, TAKEN = 5, SLOT_A = 5, SLOT_B, SLOT_SUM };
    const int l = in->length;
    uint8_t *start = next_stub, *out = emit(start, lower, sizeof lower);
    for (int scratch = 0; scratch < TAKEN; scratch++) out = move(out, STORE, 2, scratch, scratch);
    out = move(out, STORE, 2, in->first, SLOT_A);
    out = move(out, STORE, 2, in->to, SLOT_SUM);
    if (in->second >= 0) {
        out = move(out, STORE, 2, in->second, SLOT_B);
        out = move(out, LOAD, l, B, SLOT_B);
    } else {
        out = load_operand(out, in, B);
    }
    out = move(out, LOAD, l, A, SLOT_A);
    if (in->high) {
        out = load_absolute(out, 0, l, MASK, (int64_t)(stubs + 64));
        out = three(out, AND, l, A, A, MASK);
        out = three(out, AND, l, B, B, MASK);
        out = load_absolute(out, 0, l, MASK, (int64_t)stubs);
        out = shift_right(out, l, C, A, 26);         // ah
        out = shift_right(out, l, D, B, 26);         // bh
        out = three(out, AND, l, A, A, MASK);        // al
        out = three(out, AND, l, B, B, MASK);        // bl
        out = three(out, MULUDQ, l, MASK, A, B);     // al bl
        out = shift_right(out, l, MASK, MASK, 26);
        out = three(out, MULUDQ, l, A, A, D);        // al bh
        out = three(out, ADD, l, MASK, MASK, A);
        out = three(out, MULUDQ, l, B, B, C);        // ah bl
        out = three(out, ADD, l, MASK, MASK, B);
        out = shift_right(out, l, MASK, MASK, 26);
        out = three(out, MULUDQ, l, C, C, D);        // ah bh
        out = three(out, ADD, l, A, MASK, C);
    } else {
        out = load_absolute(out, 0, l, MASK, (int64_t)(stubs + 64));
        out = three(out, MULLQ, l, A, A, B);
        out = three(out, AND, l, A, A, MASK);
    }
    out = move(out, LOAD, l, B, SLOT_SUM);
    out = three(out, ADD, l, A, A, B);
    out = move(out, STORE, 2, A, SLOT_SUM);
    for (int scratch = 0; scratch < TAKEN; scratch++) out = move(out, LOAD, 2, scratch, scratch);
    // Of a narrow instruction it clears the rest of the register, as that does.
    out = move(out, LOAD, l, in->to, SLOT_SUM);
    out = emit(out, raise, sizeof raise);
    *out++ = 0xe9;
    out = emit_word(out, code + in->size - (out + 4));
    next_stub = out;
    return start;
}

static void synchronise(void) {
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) != 0) fail("no membarrier");
}

// Other threads may be about to run what is overwritten: the first byte is a breakpoint until the rest has
// changed, and who meets it tries again.
static void overwrite(uint8_t *code, const uint8_t *stub) {
    uint8_t *page = (uint8_t *)((uintptr_t)code & ~4095ull);
    if (mprotect(page, code + 8 - page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) fail("code cannot be written");
    __atomic_store_n(code, 0xcc, __ATOMIC_SEQ_CST);
    synchronise();
    int32_t distance = stub - (code + 5);
    memcpy(code + 1, &distance, 4);
    synchronise();
    __atomic_store_n(code, 0xe9, __ATOMIC_SEQ_CST);
    synchronise();
}

// Of the forms that compilers emit all but the masked ones and addresses without a base have stubs.
static int has_stub(const struct madd52 *in, const uint8_t *code) {
    int is_plain = !in->mask && (in->second >= 0 || in->base >= 0 || in->is_absolute);
    if (interpret || !is_plain) return 0;
    if (stubs == NULL) map_stubs(code);
    if (next_stub + STUB_BYTES > stubs + STUBS || !reaches(code, stubs)) return 0;
    return !in->is_absolute || reaches(stubs, (const uint8_t *)in->displacement);
}

static atomic_flag busy = ATOMIC_FLAG_INIT;

static void on_invalid_opcode(int number, siginfo_t *info, void *context) {
    (void)info;
    ucontext_t *saved = context;
    greg_t *registers = saved->uc_mcontext.gregs;
    uint8_t *area = (uint8_t *)saved->uc_mcontext.fpregs;
    while (atomic_flag_test_and_set(&busy)) {}
    uint8_t *code = (uint8_t *)registers[REG_RIP];
    struct madd52 in;
    if (decode(code, &in)) {
        if (has_stub(&in, code)) {
            overwrite(code, make_stub(&in, code));
            atomic_fetch_add(&replaced, 1);
        } else {
            // Several often follow one another, and a signal costs a hundred times what one of them does.
            do {
                compute(&in, registers, area);
                registers[REG_RIP] += in.size;
                atomic_fetch_add(&computed, 1);
            } while (interpret && decode((const uint8_t *)registers[REG_RIP], &in));
        }
    } else if (code[0] != 0xe9) {
        // Another instruction: it is invalid again with nobody to catch it, and the process ends as it should.
        signal(number, SIG_DFL);
    }
    atomic_flag_clear(&busy);
}

static void on_breakpoint(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] -= 1;
}

static void set_cpuid(unsigned long allowed) {
    if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, allowed) != 0) fail("CPUID cannot be intercepted here");
}

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *code = (const uint8_t *)registers[REG_RIP];
    // A jump into nothing leaves an address that cannot be read; then this faults again, which ends
    // the process just as well.
    if (code[0] != 0x0f || code[1] != 0xa2) {
        signal(number, SIG_DFL);
        return;
    }
    uint32_t leaf = registers[REG_RAX], subleaf = registers[REG_RCX], a, b, c, d;
    set_cpuid(1);
    __cpuid_count(leaf, subleaf, a, b, c, d);
    set_cpuid(0);
    if (leaf == 7 && subleaf == 0) b |= IFMA_BIT;
    registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void start(void) {
    uint32_t a, b, c, d;
    __cpuid_count(7, 0, a, b, c, d);
    if (!(b & AVX512F_BIT) || !(b & AVX512DQ_BIT)) fail("the processor lacks AVX-512F or DQ");
    if (b & IFMA_BIT) fail("the processor has IFMA, there is nothing to emulate");
    for (int component = AVX; component <= HI16_ZMM; component++) {
        __cpuid_count(0xd, component, a, b, c, d);
        offset_of[component] = b;
    }
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    action.sa_sigaction = on_invalid_opcode;
    sigaction(SIGILL, &action, NULL);
    action.sa_sigaction = on_breakpoint;
    sigaction(SIGTRAP, &action, NULL);
    action.sa_sigaction = on_fault;
    sigaction(SIGSEGV, &action, NULL);
    const char *how = getenv("IFMA_EMULATION");
    interpret = how != NULL && strcmp(how, "interpret") == 0;
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) != 0) fail("no membarrier");
    set_cpuid(0);
}

__attribute__((destructor)) static void end(void) {
    fprintf(stderr, "ifma emulation: %llu instructions replaced, %llu computed\n",
            (unsigned long long)replaced, (unsigned long long)computed);
}
