// How a program for a microcontroller begins (tests/native/boards.py): vectors, the unit for floats, newlib.
#include <stddef.h>
#include <stdint.h>

extern void _start(void);
extern char end[], stack_top[];

/** Memory for the driver: from the end of the program on, half of what is there. */
void* _sbrk(ptrdiff_t more) {
  static char* top = end;
  char* const before = top;
  if (more > (stack_top - end) / 2 - (top - end)) return (void*)-1;
  top += more;
  return before;
}

/** Ends the emulator with an error. */
static void fault(void) {
  register uint32_t operation __asm__("r0") = 0x18, reason __asm__("r1") = 0x20023;
  __asm__ volatile("bkpt 0xab" : : "r"(operation), "r"(reason) : "memory");
  for (;;) {
  }
}

void reset(void) {
  *(volatile uint32_t*)0xE000ED88 |= 0xFu << 20;
  __asm__ volatile("dsb\n isb" ::: "memory");
  _start();
}

__attribute__((section(".vectors"), used)) static void* const vectors[16] = {
    stack_top, (void*)reset, (void*)fault, (void*)fault, (void*)fault, (void*)fault,
    (void*)fault, (void*)fault, 0, 0, 0, (void*)fault, (void*)fault, 0, (void*)fault, (void*)fault,
};
