target_link_libraries(lt_model ${kind} PkgConfig::jansson)
