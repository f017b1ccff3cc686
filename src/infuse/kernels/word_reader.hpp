// Reads the words of a program: everything that comes of them is within its limits.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program_file.hpp"

namespace infuse {

/** Reads words in order; everything it gives is within its limits, or `wrong` says what is not. */
class Reader {
 public:
  Reader(Program* program, const FunctionTable* own) : p(program), own(own) {}

  const char* wrong = nullptr;
  const char* name = "";
  Program* p;
  const FunctionTable* own;  // functions that only this model has; null without any
  ProgramPart* part = nullptr;  // the one that is being read

  int64_t next() {
    if (at >= p->word_count) return fail("it ends too early");
    return p->words[at++];
  }
  int number(int64_t low, int64_t high) {
    const int64_t value = next();
    if (value < low || value >= high) return int(fail("a number is out of range"));
    return int(value);
  }
  /** How many of something that takes at least one word each. */
  int count() { return number(0, p->word_count - at + 1); }
  bool flag() { return number(0, 2) != 0; }
  const char* text() { return p->texts + number(0, p->text_bytes); }
  const int64_t* raw(int count) {
    const int64_t* words = p->words + at;
    if (count > p->word_count - at) fail("it ends too early");
    else at += count;
    return words;
  }
  template <class T> T* make(isize count) {
    T* list = (T*)calloc(size_t(count < 1 ? 1 : count), sizeof(T));
    if (p->owned_count == p->owned_room) {
      const int room = p->owned_room * 2 + 64;
      void** more = (void**)realloc(p->owned, sizeof(void*) * size_t(room));
      if (more) p->owned = more, p->owned_room = room;
    }
    if (!list || p->owned_count == p->owned_room) {
      free(list);
      fail("there is not enough memory");
      static T none[1];
      return none;
    }
    p->owned[p->owned_count++] = list;
    return list;
  }
  List list(int64_t low, int64_t high) {
    const int length = count();
    int* items = make<int>(length);
    for (int i = 0; i < length && !wrong; ++i) items[i] = number(low, high);
    return {wrong ? 0 : length, items};
  }
  int term() { return number(0, p->terms); }
  int64_t fail(const char* what) {
    if (!wrong) wrong = what;
    return 0;
  }

 private:
  int64_t at = 0;
};

/** The text behind the name of an entry. */
template <class Entry> const char* kinds_of(const Entry* entry) {
  return entry->name + strlen(entry->name) + 1;
}

/** The entry of this name in a sorted table; null without one. */
template <class Entry>
const Entry* entry_of(const Entry* table, isize count, const char* name) {
  isize low = 0, high = count;
  while (low < high) {
    const isize middle = (low + high) / 2;
    const int order = strcmp(table[middle].name, name);
    if (order == 0) return table + middle;
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return nullptr;
}

}  // namespace infuse
