target_link_libraries(lt_train ${kind} PkgConfig::jansson PkgConfig::yaml_0_1)
