// The one place where Asio and Beast are compiled; everybody else sees declarations, which saves most of their cost.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
