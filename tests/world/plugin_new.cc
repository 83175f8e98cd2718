// The plugin that late_runtime loads: what it asks for and cannot have. Where the program has an operator new of its own,
// that need not know of this one's handlers.
#include <cstddef>
#include <new>

static volatile std::size_t much =
    static_cast<std::size_t>(-1) / 4; // a compiler may not look at it
static int called;

static void give_up_the_third_time() {
    if (++called == 3)
        throw std::bad_alloc();
}

static bool throws(bool array) {
    try {
        void *p = array ? operator new[](much) : operator new(much);
        return p == nullptr;
    } catch (const std::bad_alloc &) {
        return true;
    }
}

static bool all_nothrow_are_null() {
    const std::align_val_t align{64};
    return operator new(much, std::nothrow) == nullptr &&operator new[](much, std::nothrow) ==
           nullptr &&operator new(much, align, std::nothrow) ==
           nullptr &&operator new[](much, align, std::nothrow) == nullptr;
}

// What went wrong; null: nothing.
extern "C" const char *plugin_asks(bool is_replaced) {
    if (!throws(false) || !throws(true))
        return "no bad_alloc";
    if (!all_nothrow_are_null())
        return "nothrow";
    if (is_replaced)
        return nullptr;
    std::set_new_handler(give_up_the_third_time);
    if (!throws(false) || called != 3)
        return "the handler is not called, or goes on after it threw";
    called = 0;
    if (operator new[](much, std::nothrow) != nullptr || called != 3)
        return "nothrow, with a handler";
    std::set_new_handler(nullptr);
    operator delete[](operator new[](100, std::nothrow));
    return nullptr;
}
