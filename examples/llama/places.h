// Where the demo's programs and its model lie: beside the running program in a build, at their installed places
// otherwise.
#pragma once

#include <string>

namespace llama {

// The path of a program of this example. Fails, listing where it looked.
std::string find_program(const std::string &name);

// The path of a file of the recall model. Fails, listing where it looked.
std::string find_model_file(const std::string &name);

} // namespace llama
