target_compile_definitions(lt_cli PRIVATE LATHE_VERSION="${PROJECT_VERSION}")
