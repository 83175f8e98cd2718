// The library that own_operators loads: it has an operator new of its own, which is bound inside it.
#include <stdlib.h>

void *_Znwm(size_t n);
void *plugin_new(size_t n);

void *_Znwm(size_t n) { return malloc(n); }

void *plugin_new(size_t n) { return _Znwm(n); }
