// Comparing the layouts of two engines: the first tensor or field that differs, in one sentence with both values.
#include "room/layout.h"

#include <array>

namespace kvf {
namespace {

struct Field {
    const char *name;
    uint64_t ours, theirs;
};

// Both as they name themselves, in sentences.
struct Sides {
    const std::string &ours, &theirs;
};

Status only_at(const Tensor &tensor, const std::string &has, const std::string &lacks) {
    return fail(KVF_ERR_LAYOUT, "%s is registered at %s but not at %s", describe(tensor.name).c_str(), has.c_str(),
                lacks.c_str());
}

Status compare_tensors(const Tensor &ours, const Tensor &theirs, const Sides &sides) {
    constexpr size_t kUnitBytes = 2;
    const std::array<Field, 7> fields{{
        {"dtype", ours.dtype, theirs.dtype},
        {"rows", ours.rows, theirs.rows},
        {"unit_bytes", ours.unit_bytes, theirs.unit_bytes},
        {"axis_total", ours.axis_total, theirs.axis_total},
        {"axis_begin", ours.axis_begin, theirs.axis_begin},
        {"axis_count", ours.axis_count, theirs.axis_count},
        {"page_bytes", ours.page_bytes, theirs.page_bytes},
    }};
    // Pages that are not split differ in page_bytes, as their engine calls it.
    const bool whole = ours.axis_total == 1 && theirs.axis_total == 1 && ours.rows == 1 && theirs.rows == 1;
    for (const Field &field : fields) {
        if (field.ours == field.theirs || (whole && &field == &fields[kUnitBytes]))
            continue;
        return fail(KVF_ERR_LAYOUT, "%s: %s is %llu at %s and %llu at %s", describe(ours.name).c_str(), field.name,
                    static_cast<unsigned long long>(field.ours), sides.ours.c_str(),
                    static_cast<unsigned long long>(field.theirs), sides.theirs.c_str());
    }
    return {};
}

} // namespace

std::string describe(const TensorName &name) {
    return text("tensor (group %u, layer %u, part %u)", name.group, name.layer, name.part);
}

Status compare_layouts(const Layout &ours, const std::string &our_name, const Layout &theirs,
                       const std::string &their_name) {
    const Sides sides{our_name, their_name};
    auto a = ours.tensors.begin();
    auto b = theirs.tensors.begin();
    while (a != ours.tensors.end() || b != theirs.tensors.end()) {
        if (b == theirs.tensors.end() || (a != ours.tensors.end() && a->name < b->name))
            return only_at(*a, our_name, their_name);
        if (a == ours.tensors.end() || b->name < a->name)
            return only_at(*b, their_name, our_name);
        if (Status status = compare_tensors(*a, *b, sides); !status.ok())
            return status;
        ++a;
        ++b;
    }
    return {};
}

} // namespace kvf
